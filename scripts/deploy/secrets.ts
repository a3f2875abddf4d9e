import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { readIfThere, writePrivate } from "./state.ts";

/** The secrets of a deployment: files of mode 0600 beside its record, until the operator has moved them to a safe. */

export interface Secrets {
  readonly path: string;
  readonly values: Readonly<Record<string, string>>;
}

const pathIn = (dir: string): string => join(dir, "secrets.env");
const tokenPath = (dir: string): string => join(dir, "root-token");

/** The stored secrets; null without the file. */
export function storedSecrets(dir: string): Secrets | null {
  const text = readIfThere(pathIn(dir));
  if (text === null) return null;
  const values = Object.fromEntries(
    [...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name = "", value]) => [name, value ?? ""]),
  );
  return { path: pathIn(dir), values };
}

/** A file of the secrets that are the Worker's own, where its master key is in the Secrets Store. */
export function withoutMasterKey(dir: string, { values }: Secrets): Secrets {
  const { MASTER_KEY: _, ...rest } = values;
  return stored(join(dir, "worker-secrets.env"), rest);
}

/** Makes the master key and the secret of the first token, and stores them. */
export function newSecrets(dir: string): Secrets {
  const values = {
    MASTER_KEY: randomBytes(32).toString("base64"),
    BOOTSTRAP_SECRET: randomBytes(32).toString("hex"),
  };
  return stored(pathIn(dir), values);
}

function stored(path: string, values: Secrets["values"]): Secrets {
  const lines = Object.entries(values).map(([name, value]) => `${name}=${value}\n`);
  writePrivate(path, lines.join(""));
  return { path, values };
}

export const storeToken = (dir: string, token: string): void => writePrivate(tokenPath(dir), `${token}\n`);

export const storedToken = (dir: string): string | null => readIfThere(tokenPath(dir))?.trim() ?? null;

export { tokenPath };
