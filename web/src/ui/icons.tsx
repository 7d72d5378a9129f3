//! The app's few icons, drawn as strokes in the text's colour. All decorative: names stand beside them.
import type { ComponentChildren } from "preact";

function icon(children: ComponentChildren) {
  return ({ size = 20 }: { size?: number }) => (
    <svg
      class="icon"
      width={size}
      height={size}
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

export const SearchIcon = icon(
  <>
    <circle cx="11" cy="11" r="7" />
    <path d="m20 20-4-4" />
  </>,
);
export const TicketIcon = icon(
  <>
    <path d="M3 9V6h18v3a3 3 0 0 0 0 6v3H3v-3a3 3 0 0 0 0-6Z" />
    <path d="M14 6v2m0 3v2m0 3v2" />
  </>,
);
export const PlusIcon = icon(<path d="M12 5v14M5 12h14" />);
export const MinusIcon = icon(<path d="M5 12h14" />);
export const FitIcon = icon(<path d="M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5" />);
export const CloseIcon = icon(<path d="M6 6l12 12M18 6 6 18" />);
export const BackIcon = icon(<path d="M15 5l-7 7 7 7" />);
export const UpIcon = icon(<path d="M6 15l6-6 6 6" />);
export const ForwardIcon = icon(<path d="M9 5l7 7-7 7" />);
export const CheckIcon = icon(<path d="M5 12.5l4.5 4.5L19 7.5" />);
export const ClockIcon = icon(
  <>
    <circle cx="12" cy="12" r="9" />
    <path d="M12 7v5l3 2" />
  </>,
);
export const AlertIcon = icon(
  <>
    <circle cx="12" cy="12" r="9" />
    <path d="M12 7.5v5.5m0 3.2v.1" />
  </>,
);
export const MapIcon = icon(<path d="M9 4 3 6.5v13L9 17l6 3 6-2.5v-13L15 7Zm0 0v13m6-10v13" />);
export const ListIcon = icon(<path d="M9 6h11M9 12h11M9 18h11M4.5 6h.1M4.5 12h.1M4.5 18h.1" />);
export const PinIcon = icon(
  <>
    <path d="M12 21s-7-6-7-11a7 7 0 0 1 14 0c0 5-7 11-7 11Z" />
    <circle cx="12" cy="10" r="2.5" />
  </>,
);
export const CalendarIcon = icon(
  <>
    <rect x="4" y="5" width="16" height="15" rx="2" />
    <path d="M4 10h16M8 3v4m8-4v4" />
  </>,
);
export const BankIcon = icon(<path d="M4 10 12 4l8 6M6 10v8m4-8v8m4-8v8m4-8v8M4 20h16" />);
export const LockIcon = icon(
  <>
    <rect x="5" y="11" width="14" height="9" rx="2" />
    <path d="M8 11V8a4 4 0 0 1 8 0v3" />
  </>,
);
export const SparkIcon = icon(
  <path d="M12 3v4m0 10v4m9-9h-4M7 12H3m15.4-6.4-2.8 2.8m-7.2 7.2-2.8 2.8m0-12.8 2.8 2.8m7.2 7.2 2.8 2.8" />,
);
