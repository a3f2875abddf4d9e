import { readFileSync } from "node:fs";
import { isatty } from "node:tty";
import { type Environment, InvalidUsage, textOf } from "./command.ts";
import { currentLogin, loginAt } from "./login/stored.ts";

/** An address with the token and the namespace for it. */
export interface Server {
  readonly address: URL;
  readonly token: string;
  readonly namespace: string;
}

type System = "SALLYPORT" | "VAULT";

/** Follows the options in the help of commands for the service. */
export const ENVIRONMENT =
  "Environment: SALLYPORT_ADDR or VAULT_ADDR, with _TOKEN or _TOKEN_FILE, and _NAMESPACE; else `sallyport login`.";

/** The service: `SALLYPORT_…`, else `VAULT_…`, else the last login. @throws InvalidUsage */
export function serviceOf(env: Environment): Server {
  const system = systemOf(env);
  return serverOf(system, env, addressIn(env));
}

/** @throws InvalidUsage */
export function serverOf(system: System, env: Environment, given: string): Server {
  const address = addressOf(`${system}_ADDR`, given);
  const login = system === systemOf(env) ? loginAt(env, address) : null;
  const token = tokenIn(system, env) ?? login?.token;
  if (token === undefined)
    throw new InvalidUsage(`${system}_TOKEN: must be set, or ${system}_TOKEN_FILE; or log in with \`sallyport login\``);
  return { address, token, namespace: namespaceOf(env[`${system}_NAMESPACE`] ?? login?.namespace ?? "") };
}

/** The address and the namespace of the environment or the last login, for requests without a token. @throws InvalidUsage */
export function placeOf(env: Environment): Omit<Server, "token"> {
  const address = addressOf("SALLYPORT_ADDR", addressIn(env));
  const namespace = env[`${systemOf(env)}_NAMESPACE`] ?? loginAt(env, address)?.namespace ?? "";
  return { address, namespace: namespaceOf(namespace) };
}

const systemOf = (env: Environment): System => (env["SALLYPORT_ADDR"] || !env["VAULT_ADDR"] ? "SALLYPORT" : "VAULT");

/** The address of the environment or the last login; empty without one. */
export const addressIn = (env: Environment): string =>
  env["SALLYPORT_ADDR"] || env["VAULT_ADDR"] || (currentLogin(env)?.address ?? "");

const namespaceOf = (name: string): string => name.replace(/^\/+|\/+$/g, "");

/** @throws InvalidUsage */
export function addressOf(name: string, value: string): URL {
  if (value === "")
    throw new InvalidUsage(`${name}: must be set to a URL, or log in with \`sallyport login --address URL\``);
  const url = URL.canParse(value) ? new URL(value) : null;
  if (url === null || !/^https?:$/.test(url.protocol)) throw new InvalidUsage(`${name}: must be a URL`);
  if (url.username !== "" || url.password !== "") throw new InvalidUsage(`${name}: must not contain credentials`);
  return url;
}

/** Undefined without a token in the environment. @throws InvalidUsage */
export function tokenIn(system: System, env: Environment): string | undefined {
  const file = env[`${system}_TOKEN_FILE`];
  const token = (file ? contentOf(`${system}_TOKEN_FILE`, file) : (env[`${system}_TOKEN`] ?? "")).trim();
  if (token === "") return undefined;
  if (!/^[\x21-\x7e]+$/.test(token)) throw new InvalidUsage(`${system}_TOKEN: must be one word`);
  return token;
}

/** The text of a file, or of the standard input for `-`. @throws InvalidUsage */
export function textIn(name: string, path: string): string {
  const shown = path === "-" ? "the standard input" : path;
  if (path === "-" && isatty(0)) throw new InvalidUsage(`${name}: ${shown} is a terminal: name a file`);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(path === "-" ? 0 : path));
  } catch (failure) {
    const isEncoding = failure instanceof TypeError;
    throw new InvalidUsage(`${name}: ${isEncoding ? `${shown} is not UTF-8 text` : textOf(failure)}`);
  }
}

/** Like `textIn` without a byte order mark; an empty text is an error. @throws InvalidUsage */
export function contentOf(name: string, path: string): string {
  const text = textIn(name, path).replace(/^\ufeff/, "");
  if (text.trim() === "") throw new InvalidUsage(`${name}: ${path === "-" ? "the standard input" : path} is empty`);
  return text;
}
