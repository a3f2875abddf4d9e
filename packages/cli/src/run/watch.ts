import { z } from "zod";
import { backoffMs, sleep } from "../../../relay/src/wait.ts";
import { type Api, ApiError } from "../api.ts";
import { textOf } from "../command.ts";
import type { Place } from "../kv/store.ts";

/**
 * Tells when secrets may have changed: by event notifications where the service offers them and the token may subscribe,
 * and by time besides. A hint may be wrong; its reader compares.
 */

const PATTERN = "sys/events/subscribe/kv*";
/** Answers after which notifications are not asked for again. */
const FINAL: ReadonlySet<number> = new Set([400, 401, 403, 404, 405, 501]);
/** With notifications, time is a safeguard only. */
const SLOWER = 10;

const eventSchema = z.object({
  data: z.object({
    event_type: z.string(),
    event: z.object({ metadata: z.object({ path: z.string().default("") }) }),
  }),
});

interface Watch {
  readonly places: readonly Place[];
  readonly pollMs: number;
  readonly signal: AbortSignal;
  hint(): void;
  note(line: string): void;
}

/** Runs until `signal`. */
export async function watch(api: Api, { places, pollMs, signal, hint, note }: Watch): Promise<void> {
  const state = { hasEvents: false };
  const timer = async () => {
    for (let turn = 1; !signal.aborted; turn++) {
      await sleep(pollMs, signal);
      if (!signal.aborted && (!state.hasEvents || turn % SLOWER === 0)) hint();
    }
  };
  const events = async () => {
    if (places.length === 0) return;
    const unseen = await unseenBy(api, places);
    if (unseen !== undefined) {
      note(
        `no event notifications (the token lacks subscribe on ${unseen}): the secrets are read every ${pollMs / 1000} s`,
      );
      return;
    }
    let index = 0;
    for (let failures = 0; !signal.aborted; failures++) {
      try {
        const query: [string, string][] = index === 0 ? [] : [["index", String(index + 1)]];
        for await (const line of api.lines(PATTERN, query, { accept: "text/event-stream", signal })) {
          // A change between the read and the subscription.
          if (!state.hasEvents) hint();
          state.hasEvents = true;
          failures = 0;
          if (line.startsWith("id: ")) index = Number(line.slice("id: ".length)) || index;
          if (line.startsWith("data: ") && concerns(line.slice("data: ".length), places)) hint();
        }
      } catch (failure) {
        if (signal.aborted) return;
        if (failure instanceof ApiError && FINAL.has(failure.status)) {
          note(`no event notifications (${failure.message}): the secrets are read every ${pollMs / 1000} s`);
          state.hasEvents = false;
          return;
        }
        if (failures === 1) note(`event notifications: ${textOf(failure)}`);
      }
      state.hasEvents = false;
      await sleep(backoffMs(failures), signal);
    }
  };
  await Promise.all([timer(), events()]);
}

const capabilitiesSchema = z.record(z.string(), z.array(z.string()).catch([]));

/** The API path of a secret whose events the token does not see; undefined when it sees all, or may not ask. */
async function unseenBy(api: Api, places: readonly Place[]): Promise<string | undefined> {
  const paths = places.map(({ mount, version, name }) => `${mount}${version === 2 ? "data/" : ""}${name}`);
  const body = JSON.stringify({ paths });
  const answer = await api.call("POST", "sys/capabilities-self", { body }).catch(() => null);
  if (answer === null) return undefined;
  const { data } = z.object({ data: capabilitiesSchema }).parse(JSON.parse(answer.text));
  const sees = (path: string) => ["root", "subscribe"].some((capability) => data[path]?.includes(capability));
  return paths.find((path) => !sees(path));
}

/** Whether an event is about one of the secrets, or says that some were lost. */
function concerns(text: string, places: readonly Place[]): boolean {
  const parsed = eventSchema.safeParse(JSON.parse(text));
  if (!parsed.success) return false;
  const { event_type, event } = parsed.data.data;
  if (event_type === "events/gap") return true;
  const { path } = event.metadata;
  return places.some(({ mount, version, name }) =>
    version === 1 ? path.endsWith(`${mount}${name}`) : path.includes(mount) && path.endsWith(`/${name}`),
  );
}
