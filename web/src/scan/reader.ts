//! The camera: looks for QR codes a few times a second and says what they say. The platform's reader where there is one, else a
//! small decoder that is fetched then. `scan_page.tsx` gives it a <video>.

/** Looks per second: a person holds a ticket for about one. */
const LOOK_EVERY_MS = 110;
/** The same code is not told again while it stays in the picture, and for so long after. */
const SAME_AGAIN_MS = 2_500;
/** Width in which a picture is looked at: a code of 45 modules has 4 pixels a module in half of it. */
const LOOK_WIDTH = 800;

interface Detector {
  detect(source: CanvasImageSource): Promise<{ rawValue: string }[]>;
}
interface DetectorClass {
  new (options: { formats: string[] }): Detector;
  getSupportedFormats(): Promise<string[]>;
}

type Look = (video: HTMLVideoElement) => Promise<string | null>;

export interface Reader {
  stop(): void;
  /** turns the lamp on or off; null where there is none */
  lamp: ((isOn: boolean) => Promise<void>) | null;
}

async function platformLook(): Promise<Look | null> {
  const Class = (globalThis as { BarcodeDetector?: DetectorClass }).BarcodeDetector;
  try {
    if (!Class || !(await Class.getSupportedFormats()).includes("qr_code")) return null;
    const detector = new Class({ formats: ["qr_code"] });
    return async (video) => (await detector.detect(video))[0]?.rawValue ?? null;
  } catch {
    return null;
  }
}

async function ownLook(): Promise<Look> {
  const { default: decode } = await import("qr/decode.js");
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  return async (video) => {
    if (!context || video.videoWidth === 0) return null;
    const scale = Math.min(1, LOOK_WIDTH / video.videoWidth);
    canvas.width = Math.round(video.videoWidth * scale);
    canvas.height = Math.round(video.videoHeight * scale);
    context.drawImage(video, 0, 0, canvas.width, canvas.height);
    const { data, width, height } = context.getImageData(0, 0, canvas.width, canvas.height);
    try {
      return decode({ data, width, height });
    } catch {
      // No code in this picture.
      return null;
    }
  };
}

/** Fetches what looks, so that a camera can be opened later without a network. */
export const prepareLook = async (): Promise<Look> => (await platformLook()) ?? (await ownLook());

/** Opens the camera at the back. Rejects where there is none or it is not allowed. */
export async function openReader(video: HTMLVideoElement, found: (text: string) => void): Promise<Reader> {
  const stream = await navigator.mediaDevices.getUserMedia({
    video: { facingMode: "environment", width: { ideal: 1280 }, height: { ideal: 720 } },
    audio: false,
  });
  const look = await prepareLook();
  video.srcObject = stream;
  await video.play();
  let isStopped = false;
  let last = { text: "", seen_ms: 0 };
  const step = async () => {
    if (isStopped) return;
    const text = document.hidden ? null : await look(video).catch(() => null);
    if (isStopped) return;
    const now = performance.now();
    if (text) {
      if (text !== last.text || now - last.seen_ms > SAME_AGAIN_MS) found(text);
      last = { text, seen_ms: now };
    }
    setTimeout(() => void step(), LOOK_EVERY_MS);
  };
  void step();
  const [track] = stream.getVideoTracks();
  const hasLamp = "torch" in (track?.getCapabilities?.() ?? {});
  return {
    lamp: hasLamp ? (isOn) => track.applyConstraints({ advanced: [{ torch: isOn } as MediaTrackConstraintSet] }) : null,
    stop() {
      isStopped = true;
      for (const each of stream.getTracks()) each.stop();
      video.srcObject = null;
    },
  };
}
