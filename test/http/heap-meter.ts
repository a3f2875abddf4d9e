import { once } from "node:events";
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "../smoke/local-service.ts";

/** From one measurement to the next one, ms. */
const PAUSE_MS = 100;
const WORKER = "core:user:";
const [COLLECT, MEASURE] = ["HeapProfiler.collectGarbage", "Runtime.getHeapUsage"];

/** https://chromedevtools.github.io/devtools-protocol/tot/Runtime/#method-getHeapUsage */
interface HeapUsage {
  readonly usedSize: number;
  /** Of buffers outside of the heap. */
  readonly backingStorageSize: number;
}

/**
 * The memory that the isolate of a service holds, heap and buffers, by the inspector of its runtime. Garbage is collected
 * before each measurement: without pressure the runtime keeps it.
 */
export class HeapMeter {
  readonly #dir = mkdtempSync(join(tmpdir(), "sallyport-heap-"));
  #socket: WebSocket | undefined;
  #most = 0;

  /** Starts a service whose runtime has an inspector, and measures from then on. */
  async open(start: () => Promise<void>): Promise<void> {
    const port = await freePort();
    const runtime = join(this.#dir, "workerd");
    const { default: path } = createRequire(import.meta.resolve("miniflare"))("workerd") as { default: string };
    writeFileSync(runtime, `#!/bin/sh\nexec '${path}' "$@" --inspector-addr=127.0.0.1:${port}\n`);
    chmodSync(runtime, 0o755);
    process.env["MINIFLARE_WORKERD_PATH"] = runtime;
    try {
      await start();
    } finally {
      delete process.env["MINIFLARE_WORKERD_PATH"];
    }
    const targets = (await (await fetch(`http://127.0.0.1:${port}/json`)).json()) as { id: string }[];
    const target = targets.find(({ id }) => id.startsWith(WORKER));
    this.#socket = new WebSocket(`ws://127.0.0.1:${port}/${target?.id}`);
    this.#socket.addEventListener("message", ({ data }) => this.#note(data));
    await once(this.#socket, "open");
    this.#ask(COLLECT);
  }

  #ask(method: string): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ id: 1, method }));
  }

  /** The collection is a task that runs later, in an idle isolate at its next request: only its answer tells. */
  #note(answer: string): void {
    const { id, result } = JSON.parse(answer) as { id?: number; result?: Partial<HeapUsage> };
    if (id === undefined) return;
    const { usedSize, backingStorageSize } = result ?? {};
    if (usedSize === undefined || backingStorageSize === undefined) this.#ask(MEASURE);
    else {
      this.#most = Math.max(this.#most, usedSize + backingStorageSize);
      setTimeout(() => this.#ask(COLLECT), PAUSE_MS);
    }
  }

  /** The most since the last call, in bytes. */
  most(): number {
    const most = this.#most;
    this.#most = 0;
    return most;
  }

  close(): void {
    this.#socket?.close();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
