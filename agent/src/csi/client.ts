import { setTimeout as sleep } from "node:timers/promises";
import { Client, connectivityState, credentials, type ServiceError, status } from "@grpc/grpc-js";
import { methodOf, type RequestDraft, type Response, type Rpc } from "@sallyport/csi-wire";
import { textOf } from "../log.ts";
import { CallFailure } from "./failure.ts";
import { pauseAfter, retriesOf } from "./retry.ts";
import { obstacleAt } from "./socket.ts";

const OPTIONS = {
  // Drivers in other languages refuse a socket path as authority.
  "grpc.default_authority": "localhost",
  "grpc.initial_reconnect_backoff_ms": 200,
  // Connecting to a local socket is cheap, and operations wait for it.
  "grpc.max_reconnect_backoff_ms": 1_000,
  "grpc.enable_retries": 0,
  "grpc.max_receive_message_length": 16 * 1024 * 1024,
};

/** Connection timeout of a plugin. */
const CONNECT_MS = 5_000;
const TOO_LARGE = /^Received message larger than max/;

/** The gRPC client of one plugin: one channel, which reconnects after a plugin restart. */
export class PluginClient {
  readonly #id: string;
  readonly #socket: string;
  readonly #client: Client;

  constructor(id: string, socket: string) {
    this.#id = id;
    this.#socket = socket;
    this.#client = new Client(`unix:${socket}`, credentials.createInsecure(), OPTIONS);
  }

  /**
   * Calls the plugin, with the retries that the call permits.
   * @param until deadline of all attempts together, Unix time in ms
   * @throws CallFailure
   */
  async call<R extends Rpc>(rpc: R, request: RequestDraft<R>, until: number): Promise<Response<R>> {
    const tries = new Map<number, number>();
    let reached = false;
    for (;;) {
      try {
        return await this.#try(rpc, request, until);
      } catch (failure) {
        if (!(failure instanceof CallFailure)) throw failure;
        const { code, message } = failure;
        reached ||= failure.reached;
        const times = (tries.get(code) ?? 0) + 1;
        tries.set(code, times);
        const pause = pauseAfter(code, times, retriesOf(rpc));
        if (pause === undefined || Date.now() + pause >= until)
          throw new CallFailure(this.#id, rpc, code, message, reached);
        await sleep(pause);
      }
    }
  }

  close(): void {
    this.#client.close();
  }

  async #try<R extends Rpc>(rpc: R, request: RequestDraft<R>, until: number): Promise<Response<R>> {
    const fail = (code: number, details: string, reached: boolean) =>
      new CallFailure(this.#id, rpc, code, details, reached);
    const obstacle = await this.#connect(Math.min(until, Date.now() + CONNECT_MS));
    if (obstacle !== null) throw fail(status.UNAVAILABLE, obstacle, false);
    const { path, requestSerialize, responseDeserialize } = methodOf(rpc);
    const bytes = await new Promise<Buffer>((resolve, reject) => {
      const options = { deadline: until };
      const keep = (answer: Buffer) => answer;
      this.#client.makeUnaryRequest(
        path,
        requestSerialize,
        keep,
        request,
        options,
        (failure: ServiceError | null, answer) => {
          if (answer !== undefined) resolve(answer);
          else reject(fail(codeOf(failure), failure?.details ?? "", true));
        },
      );
    });
    try {
      return responseDeserialize(bytes);
    } catch (failure) {
      throw fail(0, `its answer cannot be read: ${textOf(failure)}`, true);
    }
  }

  /** Waits for a connection; no request is sent before. @returns null when connected, otherwise the obstacle */
  async #connect(until: number): Promise<string | null> {
    if (this.#client.getChannel().getConnectivityState(true) === connectivityState.READY) return null;
    // The channel keeps waiting after a failure; a direct connection attempt fails at once with a reason.
    const obstacle = await obstacleAt(this.#socket);
    if (obstacle !== null) return obstacle;
    return new Promise((resolve) =>
      this.#client.waitForReady(until, (failure) => resolve(failure ? "its socket takes no connection in time" : null)),
    );
  }
}

/** The library's own message size error is not the plugin's refusal. */
const codeOf = (failure: ServiceError | null): number =>
  failure === null || TOO_LARGE.test(failure.details) ? 0 : failure.code;
