//! The picture on an event's card: rows of seats before a lit stage, its colours drawn from the event's id.
//! The share of coloured seats is the share still available, so the picture is true.

interface Props {
  id: string;
  /** 0..1 of the seats still available */
  share: number;
}

/** A small stable hash, for colours only. */
function hueOf(id: string): number {
  let hash = 2166136261;
  for (const char of id) hash = Math.imul(hash ^ char.charCodeAt(0), 16777619);
  return (hash >>> 8) % 360;
}

const ROWS = 7;

export function EventArt({ id, share }: Props) {
  const hue = hueOf(id);
  const dots: { x: number; y: number; on: boolean; row: number }[] = [];
  let shuffle = hue + 1;
  for (let row = 0; row < ROWS; row++) {
    const radius = 92 + row * 17;
    const seats = 15 + row * 3;
    for (let n = 0; n < seats; n++) {
      const angle = Math.PI * (0.14 + (0.72 * n) / (seats - 1));
      shuffle = (Math.imul(shuffle, 1103515245) + 12345) & 0x7fffffff;
      dots.push({
        x: 200 + radius * 1.35 * Math.cos(angle),
        y: 8 + radius * 0.86 * Math.sin(angle),
        on: (shuffle >>> 12) % 1000 < share * 1000,
        row,
      });
    }
  }
  const gradient = `art-${hue}`;
  return (
    <svg class="art" viewBox="0 0 400 200" preserveAspectRatio="xMidYMid slice" aria-hidden="true">
      <defs>
        <linearGradient id={gradient} x1="0" y1="0" x2="1" y2="1">
          <stop offset="0" stop-color={`hsl(${hue} 68% 30%)`} />
          <stop offset="1" stop-color={`hsl(${(hue + 42) % 360} 72% 17%)`} />
        </linearGradient>
        <radialGradient id={`${gradient}-l`} cx="0.5" cy="0" r="0.75">
          <stop offset="0" stop-color={`hsl(${(hue + 330) % 360} 100% 82%)`} stop-opacity="0.75" />
          <stop offset="1" stop-color={`hsl(${hue} 90% 60%)`} stop-opacity="0" />
        </radialGradient>
      </defs>
      <rect width="400" height="200" fill={`url(#${gradient})`} />
      <rect width="400" height="200" fill={`url(#${gradient}-l)`} />
      <path d="M118 0q82 46 164 0Z" fill="#fff" fill-opacity="0.9" />
      {dots.map((dot) => (
        <circle
          key={`${dot.x} ${dot.y}`}
          cx={dot.x.toFixed(1)}
          cy={dot.y.toFixed(1)}
          r={4.1 + dot.row * 0.22}
          fill="#fff"
          fill-opacity={dot.on ? 0.92 - dot.row * 0.05 : 0.2}
        />
      ))}
    </svg>
  );
}

/** The hall beside the headline: seats of which a few come and go (style/home.css moves them). */
export function HeroArt() {
  const seats: { x: number; y: number; look: string }[] = [];
  let shuffle = 20;
  for (let row = 0; row < 9; row++) {
    const radius = 130 + row * 30;
    const count = 11 + row * 2;
    for (let n = 0; n < count; n++) {
      const angle = Math.PI * (0.19 + (0.62 * n) / (count - 1));
      shuffle = (Math.imul(shuffle, 1103515245) + 12345) & 0x7fffffff;
      const dice = (shuffle >>> 12) % 100;
      const look = row === 3 && (n === 10 || n === 11) ? "mine" : dice < 22 ? "sold" : dice < 38 ? "going" : "";
      seats.push({ x: 300 + radius * 0.86 * Math.cos(angle), y: -54 + radius * Math.sin(angle), look });
    }
  }
  return (
    <svg class="hero-art" viewBox="0 0 600 340" aria-hidden="true">
      <path d="M222 0q78 44 156 0" fill="none" stroke="var(--line-strong)" stroke-width="10" stroke-linecap="round" />
      {seats.map(({ x, y, look }) => (
        <circle key={`${x} ${y}`} cx={x.toFixed(1)} cy={y.toFixed(1)} r="8.4" class={look} />
      ))}
    </svg>
  );
}
