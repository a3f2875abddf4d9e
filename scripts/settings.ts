/** What `npm start` reads from its environment: its own settings, and those it hands on to the Worker. */

/** A reason not to start, in one sentence for the person who typed the command. */
export class Refusal extends Error {}

export interface LocalSettings {
  port: number;
  stateDir: string;
  /** Load `seeds/` into a fresh state. */
  seed: boolean;
  /** Print a line for every request. */
  log: boolean;
}

/** What the Worker reads: `MASTER_KEY` and the names in `src/env.ts` (a test compares them). */
export const WORKER_SETTINGS: readonly string[] = [
  "ADMIN_NAMESPACE",
  "BOOTSTRAP_SECRET",
  "CLOUD_A_ACCESS_KEY_ID",
  "CLOUD_A_REGION",
  "CLOUD_A_SECRET_ACCESS_KEY",
  "CLOUD_A_SM_URL",
  "CLOUD_A_STS_URL",
  "CLOUD_B_ARM_URL",
  "CLOUD_B_CLIENT_ID",
  "CLOUD_B_CLIENT_SECRET",
  "CLOUD_B_ENVIRONMENT",
  "CLOUD_B_GRAPH_URL",
  "CLOUD_B_LOGIN_URL",
  "CLOUD_B_SUBSCRIPTION_ID",
  "CLOUD_B_TENANT_ID",
  "CLOUD_C_SM_URL",
  "CLOUD_C_TOKEN_URL",
  "DEPLOY_PROJECT_URL",
  "DEV_ROOT_TOKEN",
  "EVENT_BUFFER_BYTES",
  "EVENT_BUFFER_LINES",
  "EVENT_HEARTBEAT_MS",
  "MASTER_KEY",
  "PUBLIC_URL",
  "REPO_HOST_URL",
];

export type Environment = Readonly<Record<string, string | undefined>>;

export function localSettings(env: Environment): LocalSettings {
  return {
    port: port(env["PORT"] || "8787"),
    stateDir: env["STATE_DIR"] || ".sallyport",
    seed: flag("SEED", env["SEED"] || "1"),
    log: flag("LOG", env["LOG"] || "0"),
  };
}

/** Those of the Worker's settings that are set; an empty one counts as not set. */
export function workerSettings(env: Environment): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of WORKER_SETTINGS) {
    const value = env[name];
    if (value) found[name] = value;
  }
  return found;
}

function port(text: string): number {
  const number = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > 65535) throw new Refusal(`PORT must be a number from 1 to 65535, not "${text}".`);
  return number;
}

function flag(name: string, text: string): boolean {
  if (text !== "0" && text !== "1") throw new Refusal(`${name} must be 0 or 1, not "${text}".`);
  return text === "1";
}
