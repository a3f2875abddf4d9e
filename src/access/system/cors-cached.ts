import type { CorsSettings } from "../../contracts/access-control.ts";
import { accessControl } from "../../rpc/stubs.ts";

/** How long an isolate uses the settings that it has read: a change reaches every isolate within 2 s. */
const REUSE_MS = 1_500;

let known: { readonly until: number; readonly settings: CorsSettings | null } | null = null;

/** Drops the settings, after this isolate has changed them. */
export function clearCorsCache(): void {
  known = null;
}

/** The settings of cross-origin requests. Only requests of browsers ask for them, so that others cost nothing. */
export async function corsSettings(env: Env): Promise<CorsSettings | null> {
  const now = Date.now();
  if (known && known.until > now) return known.settings;
  const settings = await accessControl(env).cors();
  known = { until: now + REUSE_MS, settings };
  return settings;
}
