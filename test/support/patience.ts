import { vi } from "vitest";

/** As `expect.poll` in vitest.config.ts. Vitest's own default is a second, which a busy machine may need for one call. */
const TIMEOUT_MS = 30_000;

const waitFor = vi.waitFor.bind(vi);
const waitUntil = vi.waitUntil.bind(vi);

vi.waitFor = (check, options) =>
  waitFor(check, typeof options === "number" ? options : { timeout: TIMEOUT_MS, ...options });

vi.waitUntil = (check, options) =>
  waitUntil(check, typeof options === "number" ? options : { timeout: TIMEOUT_MS, ...options });
