import type { CubbyholeApi, CubbyholeOwner, CubbyholeRights } from "../../contracts/cubbyhole.ts";
import { ok, type Result } from "../../lib/result.ts";
import { refuseIfSealed } from "../../platform/crypto/refuse-if-sealed.ts";
import type { Cubbyholes } from "../tokens/cubbyholes.ts";
import type { Wrappings } from "../tokens/wrappings.ts";

/** RPC methods about private storage of tokens. */
export class CubbyholeMethods implements CubbyholeApi {
  readonly #cubbyholes: Cubbyholes;
  readonly #wrappings: Wrappings;

  constructor(cubbyholes: Cubbyholes, wrappings: Wrappings) {
    this.#cubbyholes = cubbyholes;
    this.#wrappings = wrappings;
  }

  /** A wrapping token reads its answer at `response`, once. */
  readCubbyhole(owner: CubbyholeOwner, path: string): Result<string> {
    return refuseIfSealed(() => {
      const unwrapped = path === "response" ? this.#wrappings.unwrapByAccessor(owner.accessor, Date.now()) : null;
      return unwrapped ? ok(JSON.stringify({ response: unwrapped.body })) : this.#cubbyholes.read(owner, path);
    });
  }

  writeCubbyhole(owner: CubbyholeOwner, path: string, text: string, rights: CubbyholeRights): Result<null> {
    return refuseIfSealed(() => this.#cubbyholes.write(owner, path, text, rights, Date.now()));
  }

  deleteCubbyhole(owner: CubbyholeOwner, path: string): void {
    this.#cubbyholes.delete(owner, path);
  }

  listCubbyhole(owner: CubbyholeOwner, folder: string): string[] {
    return this.#cubbyholes.list(owner, folder);
  }
}
