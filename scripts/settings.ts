/** Environment settings of `npm start`: its own, and those passed to the Worker. */

import { Settings } from "../src/platform/settings.ts";

/** A reason against a start, in one sentence for the user. */
export class Refusal extends Error {}

export interface LocalSettings {
  port: number;
  stateDir: string;
  /** Load `seeds/` into a fresh state. */
  seed: boolean;
  /** How many node agents to run on this machine. */
  agents: number;
  /** Print a line for every request. */
  log: boolean;
  /** Start the providers of secret sync on this machine, too. */
  playground: boolean;
}

/** The state of a playground, unless STATE_DIR names another one. */
export const PLAYGROUND_DIR = ".sallyport-playground";

/** Settings of the Worker, and its secret, the keyring. */
export const WORKER_SETTINGS: readonly string[] = [...Object.keys(Settings.shape), "MASTER_KEY"];

export type Environment = Readonly<Record<string, string | undefined>>;

export function localSettings(env: Environment): LocalSettings {
  const playground = flag("PLAYGROUND", env["PLAYGROUND"] || "0");
  return {
    playground,
    port: port(env["PORT"] || "8787"),
    stateDir: env["STATE_DIR"] || (playground ? PLAYGROUND_DIR : ".sallyport"),
    seed: flag("SEED", env["SEED"] || "1"),
    agents: agents(env["AGENT"] || "1"),
    log: flag("LOG", env["LOG"] || "0"),
  };
}

/** The Worker's settings with a value; an empty one counts as unset. */
export function workerSettings(env: Environment): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of WORKER_SETTINGS) {
    const value = env[name];
    if (value) found[name] = value;
  }
  const checked = Settings.safeParse(found);
  const [wrong] = checked.error?.issues ?? [];
  if (wrong) throw new Refusal(`${wrong.path.join(".")} is not usable: ${wrong.message}.`);
  if (found["JURISDICTION"] && found["JURISDICTION"] !== "none")
    throw new Refusal("JURISDICTION is for deployments: the local runtime has no jurisdictions.");
  if (found["SNAPSHOT_CRON"]) throw new Refusal("SNAPSHOT_CRON is for deployments: the local runtime has no triggers.");
  return found;
}

export function port(text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 65535) throw new Refusal(`PORT must be a number from 1 to 65535, not "${text}".`);
  return number;
}

function agents(text: string): number {
  if (!/^[0-9]$/.test(text)) throw new Refusal(`AGENT must be a number from 0 to 9, not "${text}".`);
  return Number(text);
}

function flag(name: string, text: string): boolean {
  if (text !== "0" && text !== "1") throw new Refusal(`${name} must be 0 or 1, not "${text}".`);
  return text === "1";
}
