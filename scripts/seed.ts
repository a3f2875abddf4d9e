/**
 * Loads `seeds/*.json`, in the order of their names, through the public API, with the rights of a user.
 * By hand: SALLYPORT_ADDR=… SALLYPORT_TOKEN=… node scripts/seed.ts
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Refusal } from "./settings.ts";
import { TOUR } from "./tour.ts";

interface Seed {
  because: string;
  requests: Array<{ method: string; path: string; body?: unknown }>;
}

export interface Service {
  baseUrl: string;
  token: string;
  /** Of each request, beside the token. */
  headers?: Record<string, string>;
}

/** Stops at the first refused request. @returns the number of requests */
export async function seed({ baseUrl, token, headers }: Service, dir = "seeds", signal?: AbortSignal): Promise<number> {
  let made = 0;
  for (const file of readdirSync(dir).sort()) {
    if (!file.endsWith(".json") || file === TOUR) continue;
    const { requests } = JSON.parse(readFileSync(join(dir, file), "utf8")) as Seed;
    for (const { method, path, body } of requests) {
      const response = await fetch(new URL(path, baseUrl), {
        method,
        headers: { ...headers, Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        // A text is sent unchanged: some bodies are lines of JSON.
        ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
        ...(signal ? { signal } : {}),
      });
      const answer = await response.text();
      if (!response.ok) {
        throw new Refusal(
          `${join(dir, file)}: ${method} ${path} was refused with ${response.status}: ${reasonIn(answer)}`,
        );
      }
      made += 1;
    }
  }
  return made;
}

function reasonIn(answer: string): string {
  try {
    const { errors } = JSON.parse(answer) as { errors?: unknown };
    if (Array.isArray(errors)) return errors.join("; ") || "nothing there";
  } catch {
    // The cluster API answers in plain text.
  }
  return answer.trim() || "no reason given";
}

if (import.meta.main) {
  const { SALLYPORT_ADDR: baseUrl = "http://127.0.0.1:8787", SALLYPORT_TOKEN: token = "" } = process.env;
  try {
    console.log(`${await seed({ baseUrl, token })} requests made.`);
  } catch (failure) {
    console.error(failure instanceof Refusal ? failure.message : failure);
    process.exitCode = 1;
  }
}
