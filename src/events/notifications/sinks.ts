import type { NotificationRequest } from "../../contracts/notification.ts";
import { serverSentHeartbeat } from "./frames.ts";
import type { Sink } from "./notifier.ts";

/** The attachment of a hibernating socket: at most 16 KiB. */
export interface Kept {
  readonly request: NotificationRequest;
  readonly cursor: number;
}

/** A WebSocket, which outlives the object's memory. */
export class SocketSink implements Sink {
  constructor(
    private readonly socket: WebSocket,
    private readonly request: NotificationRequest,
  ) {}

  get waiting(): number {
    return this.socket.bufferedAmount;
  }

  send(frame: string | Uint8Array): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(frame);
  }

  close(code: number, reason: string): void {
    try {
      this.socket.close(code, reason);
    } catch {
      // Already closed.
    }
  }

  keep(cursor: number): void {
    const kept: Kept = { request: this.request, cursor };
    this.socket.serializeAttachment(kept);
  }
}

/** A response of server-sent events; it keeps its object awake. */
export class StreamSink implements Sink {
  readonly body: ReadableStream<Uint8Array>;
  #controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  #isOpen = true;
  readonly #encoder = new TextEncoder();

  /** @param onEnd the stream is over, or its client went */
  constructor(private readonly onEnd: () => void) {
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        cancel: () => {
          this.#isOpen = false;
          onEnd();
        },
      },
      new ByteLengthQueuingStrategy({ highWaterMark: 0 }),
    );
  }

  get waiting(): number {
    return Math.max(0, -(this.#controller?.desiredSize ?? 0));
  }

  send(frame: string | Uint8Array): void {
    if (!this.#isOpen) return;
    this.#controller?.enqueue(typeof frame === "string" ? this.#encoder.encode(frame) : frame);
  }

  heartbeat(index: number): void {
    // A client that takes nothing needs no sign of life.
    if (this.waiting === 0) this.send(serverSentHeartbeat(index));
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#controller?.close();
    this.onEnd();
  }

  keep(): void {}
}
