import type { Result } from "../lib/result.ts";
import type { WriteRights } from "./kv-store.ts";

/** The private storage of one token in one namespace. */
export interface CubbyholeOwner {
  readonly accessor: string;
  readonly namespaceId: string;
}

/** The methods of `AccessControl` about private storage of tokens. */
export interface CubbyholeApi {
  /** Returns the JSON text at a path of a token's private storage. */
  readCubbyhole(owner: CubbyholeOwner, path: string): Result<string>;
  /** Stores the JSON text of an object in a token's private storage. Refused above its bounds. */
  writeCubbyhole(owner: CubbyholeOwner, path: string, text: string, rights: WriteRights): Result<null>;
  deleteCubbyhole(owner: CubbyholeOwner, path: string): void;
  /** Returns the names in a folder, sorted; `folder` is empty or ends with a slash. */
  listCubbyhole(owner: CubbyholeOwner, folder: string): string[];
}
