/**
 * `node bench/search.ts [SECRETS…]`: a search by name over so many secrets, as the palette of the console asks it: its time
 * beside that of a read of one secret, and the time until a new name is found.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { figure, quantiles } from "./statistics.ts";
import { SECRETS, type Service, startService } from "./sync-sides.ts";

const WRITERS = 16;
const SEARCHES = 200;
/** As the palette asks. */
const PAGES = 5;
const HITS = 12;
const NEW_NAMES = 20;
const POLL_MS = 20;

/** Words of names: each is in every sixteenth of them. */
const TEAMS = "billing search mail orders stock fraud media login".split(" ");
const KINDS = "database api cache queue broker ledger proxy worker".split(" ");

const nameOf = (at: number): string =>
  `${TEAMS[at % TEAMS.length]}/${KINDS[(at >> 3) % KINDS.length]}/key-${at.toString(36)}`;

async function fill(service: Service, secrets: number): Promise<void> {
  let next = 0;
  const writer = async (): Promise<void> => {
    for (let at = next++; at < secrets; at = next++)
      await service.ask("PUT", `${SECRETS}${nameOf(at)}`, { data: { a: "1" } });
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

interface Page {
  readonly data: { readonly hits: readonly unknown[]; readonly next: string };
}

/** The first hits, of as many pages as the palette reads. */
async function search(service: Service, q: string): Promise<readonly unknown[]> {
  const hits: unknown[] = [];
  for (let [page, next] = [0, ""]; page < PAGES && (page === 0 || next !== "") && hits.length < HITS; page++) {
    const query = new URLSearchParams({ type: "secret", limit: String(HITS - hits.length), q, after: next });
    const { data } = JSON.parse(await service.ask("GET", `/v1/sys/search?${query}`, undefined)) as Page;
    hits.push(...data.hits);
    next = data.next;
  }
  return hits;
}

/** Waits until a name is found. @returns ms */
async function found(service: Service, name: string): Promise<number> {
  const began = performance.now();
  while ((await search(service, name)).length === 0) await sleep(POLL_MS);
  return performance.now() - began;
}

/** Times of alternating requests, so that both meet the same machine. */
async function times(...requests: readonly ((at: number) => Promise<unknown>)[]): Promise<number[][]> {
  const all: number[][] = requests.map(() => []);
  for (let at = 0; at < SEARCHES; at++)
    for (const [side, request] of requests.entries()) {
      const began = performance.now();
      await request(at);
      all[side]?.push(performance.now() - began);
    }
  return all;
}

async function measure(service: Service, secrets: number): Promise<string> {
  const began = performance.now();
  await fill(service, secrets);
  const filledS = (performance.now() - began) / 1_000;
  const behindMs = await found(service, nameOf(secrets - 1));
  const any = (at: number): number => (at * 7_919) % secrets;
  const [reads = [], exact = [], words = [], none = []] = await times(
    (at) => service.ask("GET", `${SECRETS}${nameOf(any(at))}`, undefined),
    (at) => search(service, `key-${any(at).toString(36)}`),
    (at) => search(service, `${TEAMS[at % TEAMS.length]} ${KINDS[at % KINDS.length]}`),
    (at) => search(service, `absent-${at}`),
  );
  const waits: number[] = [];
  for (let at = 0; at < NEW_NAMES; at++) {
    await service.ask("PUT", `${SECRETS}new/name-${at}`, { data: { a: "1" } });
    waits.push(await found(service, `new/name-${at}`));
  }
  const read = figure(reads).median;
  const row = (what: string, values: number[]): string => {
    const at = quantiles(values);
    const shown = [0.5, 0.9, 0.99, 1].map((share) => at(share).toFixed(1).padStart(8)).join("");
    return `${what.padEnd(34)}${shown}${(at(0.5) / read).toFixed(1).padStart(10)}`;
  };
  return [
    `${secrets} secrets, written in ${filledS.toFixed(0)} s; the last name was found ${behindMs.toFixed(0)} ms later`,
    `${"ms".padEnd(34)}${["p50", "p90", "p99", "max", "of a read"].map((word, at) => word.padStart(at < 4 ? 8 : 10)).join("")}`,
    row("read of a secret", reads),
    row("search, the name of one", exact),
    row("search, two words of many", words),
    row("search, no hit", none),
    row("write until the name is found", waits),
  ].join("\n");
}

const sizes = process.argv.slice(2).map(Number);
for (const secrets of sizes.length > 0 ? sizes : [100_000]) {
  const dir = mkdtempSync(join(tmpdir(), "sallyport-bench-"));
  const service = await startService(dir, {});
  try {
    console.log(await measure(service, secrets));
  } finally {
    await service.server.stop();
    rmSync(dir, { recursive: true });
  }
}
