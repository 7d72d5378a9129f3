//! The QR encoder, judged by an independent decoder.
import jsQR from "jsqr";
import { describe, expect, it } from "vitest";
import { qrModules, qrPath } from "../src/ui/qr";

/** The modules as the picture a camera would see: black on white, quiet zone, several pixels a module. */
function picture(text: string, scale = 4): { data: Uint8ClampedArray; side: number } {
  const modules = qrModules(text);
  const side = (modules.length + 8) * scale;
  const data = new Uint8ClampedArray(side * side * 4).fill(255);
  modules.forEach((row, r) => {
    row.forEach((dark, c) => {
      if (!dark) return;
      for (let dy = 0; dy < scale; dy++) {
        for (let dx = 0; dx < scale; dx++) {
          data.fill(
            0,
            (((r + 4) * scale + dy) * side + (c + 4) * scale + dx) * 4,
            (((r + 4) * scale + dy) * side + (c + 4) * scale + dx) * 4 + 3,
          );
        }
      }
    });
  });
  return { data, side };
}

describe("QR codes", () => {
  it.each([1, 10, 14, 15, 26, 42, 60, 62, 84, 106, 122, 152, 180, 213])("of %i bytes are read back", (length) => {
    const text = Array.from({ length }, (_, i) => String.fromCharCode(33 + ((i * 37) % 90))).join("");
    const { data, side } = picture(text);
    expect(jsQR(data, side, side)?.data).toBe(text);
  });

  it("refuse what does not fit", () => expect(() => qrModules("x".repeat(214))).toThrow(RangeError));

  it("become one path with a quiet zone", () => {
    const { side, path } = qrPath("seatwire");
    expect(side).toBe(21 + 8);
    expect(path.startsWith("M4 4h7v1h-7z")).toBe(true);
  });
});
