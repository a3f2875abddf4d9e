import { readFileSync } from "node:fs";
import { isatty } from "node:tty";
import { type Environment, InvalidUsage, textOf } from "./command.ts";

/** An address with the token and the namespace for it. */
export interface Server {
  readonly address: URL;
  readonly token: string;
  readonly namespace: string;
}

type System = "SALLYPORT" | "VAULT";

/** The service: `SALLYPORT_…`, else `VAULT_…`. @throws InvalidUsage */
export function serviceOf(env: Environment): Server {
  const system: System = env["SALLYPORT_ADDR"] || !env["VAULT_ADDR"] ? "SALLYPORT" : "VAULT";
  return serverOf(system, env, env[`${system}_ADDR`] ?? "");
}

/** @throws InvalidUsage */
export function serverOf(system: System, env: Environment, address: string): Server {
  return {
    address: addressOf(`${system}_ADDR`, address),
    token: tokenOf(system, env),
    namespace: (env[`${system}_NAMESPACE`] ?? "").replace(/^\/+|\/+$/g, ""),
  };
}

/** @throws InvalidUsage */
export function addressOf(name: string, value: string): URL {
  if (value === "") throw new InvalidUsage(`${name}: must be set to a URL`);
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidUsage(`${name}: must be a URL`);
  if (url.username !== "" || url.password !== "") throw new InvalidUsage(`${name}: must not contain credentials`);
  return url;
}

function tokenOf(system: System, env: Environment): string {
  const file = env[`${system}_TOKEN_FILE`];
  const token = (file ? contentOf(`${system}_TOKEN_FILE`, file) : (env[`${system}_TOKEN`] ?? "")).trim();
  if (token === "") throw new InvalidUsage(`${system}_TOKEN: must be set, or ${system}_TOKEN_FILE`);
  if (!/^[\x21-\x7e]+$/.test(token)) throw new InvalidUsage(`${system}_TOKEN: must be one word`);
  return token;
}

/** The text of a file, or of the standard input for `-`; an empty one is an error. @throws InvalidUsage */
export function contentOf(name: string, path: string): string {
  const shown = path === "-" ? "the standard input" : path;
  if (path === "-" && isatty(0)) throw new InvalidUsage(`${name}: ${shown} is a terminal: name a file`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(path === "-" ? 0 : path));
  } catch (failure) {
    const isEncoding = failure instanceof TypeError;
    throw new InvalidUsage(`${name}: ${isEncoding ? `${shown} is not UTF-8 text` : textOf(failure)}`);
  }
  if (text.trim() === "") throw new InvalidUsage(`${name}: ${shown} is empty`);
  return text;
}
