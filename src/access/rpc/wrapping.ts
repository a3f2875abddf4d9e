import type { Unwrapped, WrapInfo, WrapLookup, WrappingApi, WrapRequest } from "../../contracts/wrapping.ts";
import type { Result } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { Wrappings } from "../tokens/wrappings.ts";

/** RPC methods about wrapped answers. */
export class WrappingMethods implements WrappingApi {
  readonly #wrappings: Wrappings;

  constructor(wrappings: Wrappings) {
    this.#wrappings = wrappings;
  }

  wrap(request: WrapRequest): Result<WrapInfo> {
    return refuseIfSealed(() => this.#wrappings.wrap(request, Date.now()));
  }

  lookupWrapping(token: string): Result<WrapLookup> {
    return refuseIfSealed(() => this.#wrappings.lookup(token, Date.now()));
  }

  unwrap(token: string): Result<Unwrapped> {
    return refuseIfSealed(() => this.#wrappings.unwrap(token, Date.now()));
  }

  rewrap(token: string): Result<WrapInfo> {
    return refuseIfSealed(() => this.#wrappings.rewrap(token, Date.now()));
  }
}
