//! A scripted stand-in for WebSocket: tests see what was sent and say what comes back. No server logic in it.

export class FakeSocket {
  static made: FakeSocket[] = [];
  static get last(): FakeSocket {
    return FakeSocket.made[FakeSocket.made.length - 1];
  }

  binaryType = "blob";
  readyState = 0;
  sent: Record<string, unknown>[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((message: { data: unknown }) => void) | null = null;
  onclose: ((close: { code: number }) => void) | null = null;
  readonly url: string;
  readonly protocols: string;

  constructor(url: string, protocols: string) {
    this.url = url;
    this.protocols = protocols;
    FakeSocket.made.push(this);
  }

  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }

  close(): void {
    this.readyState = 3;
  }

  /** The server accepted the connection. */
  open(): void {
    this.readyState = 1;
    this.onopen?.();
  }

  /** The server closed it. */
  drop(code: number): void {
    this.readyState = 3;
    this.onclose?.({ code });
  }

  say(message: Record<string, unknown>): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }

  frame(bytes: Uint8Array): void {
    this.onmessage?.({ data: bytes.slice().buffer });
  }

  /** All commands sent with this op. */
  ops(op: string): Record<string, unknown>[] {
    return this.sent.filter((command) => command.op === op);
  }

  /** Answers the latest command with this op. */
  answer(op: string, reply: Record<string, unknown>): void {
    const command = this.ops(op).pop();
    if (!command) throw new Error(`no ${op} was sent`);
    this.say({ id: command.id, ok: true, ...reply });
  }

  refuse(op: string, error: Record<string, unknown>): void {
    const command = this.ops(op).pop();
    if (!command) throw new Error(`no ${op} was sent`);
    this.say({ id: command.id, ok: false, error });
  }
}
