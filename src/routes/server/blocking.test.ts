import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { badRequest, denied, RequestError } from "../../platform/http/errors.ts";
import { blocking, type Changed, nothing, type Reading } from "./blocking.ts";
import { type Listing, readList } from "./listing.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const STARTED = Date.UTC(2026, 0, 1);

/** A table of one index, which wakes its waiters when it moves, and counts what it is asked. */
function table(index: number) {
  vi.setSystemTime(STARTED);
  let now = index;
  const waiters = new Set<() => void>();
  const asked = { reads: 0, waits: [] as { since: number; waitMs: number }[] };
  const read = async (): Promise<Reading> => {
    asked.reads += 1;
    const found = now;
    return { index: found, respond: () => new Response(`at ${found}`) };
  };
  const changed: Changed = async (since, waitMs) => {
    asked.waits.push({ since, waitMs });
    if (now <= since) {
      await new Promise<void>((resolve) => {
        waiters.add(resolve);
        setTimeout(resolve, waitMs);
      });
    }
    return now;
  };
  const move = (to: number) => {
    now = to;
    for (const wake of waiters) wake();
    waiters.clear();
  };
  return { read, changed, move, asked };
}

const call = (query: string, signal = new AbortController().signal, recheck = async () => {}) => ({
  query: new URLSearchParams(query),
  request: { signal } as Request,
  recheck,
});

/** Whether an answer is there, without waiting for it. */
function watch(answer: Promise<Response>) {
  const state: { response?: Response; failure?: unknown; tookMs?: number } = {};
  answer.then(
    (response) => Object.assign(state, { response, tookMs: Date.now() - STARTED }),
    (failure: unknown) => Object.assign(state, { failure, tookMs: Date.now() - STARTED }),
  );
  return state;
}

const noJitter = () => 0;

describe("a read without index", () => {
  it.each(["", "index=", "index=0", "wait=1h", "index=0&wait=10s"])("answers at once: ?%s", async (query) => {
    const { read, changed, asked } = table(5);
    expect(await (await blocking(call(query), read, changed)).text()).toBe("at 5");
    expect(asked.waits).toEqual([]);
  });
});

describe("a blocking query", () => {
  it("answers at once when the index is greater already", async () => {
    const { read, changed, asked } = table(5);
    expect(await (await blocking(call("index=4"), read, changed)).text()).toBe("at 5");
    expect(asked.waits).toEqual([]);
  });

  it("waits for a change, and answers with it", async () => {
    const { read, changed, move } = table(5);
    const state = watch(blocking(call("index=5"), read, changed));
    await vi.advanceTimersByTimeAsync(20_000);
    expect(state).toEqual({});
    move(6);
    await vi.advanceTimersByTimeAsync(50);
    expect(await state.response?.text()).toBe("at 6");
  });

  it("answers with the current data when the wait is over", async () => {
    const { read, changed } = table(5);
    const state = watch(blocking(call("index=5&wait=90s"), read, changed, noJitter));
    await vi.advanceTimersByTimeAsync(89_999);
    expect(state).toEqual({});
    await vi.advanceTimersByTimeAsync(1);
    expect(state.response?.status).toBe(200);
    expect(await state.response?.text()).toBe("at 5");
  });

  it("keeps waiting while the index is below the requested one", async () => {
    const { read, changed, move } = table(5);
    const state = watch(blocking(call("index=100"), read, changed));
    for (const index of [6, 50, 100]) {
      move(index);
      await vi.advanceTimersByTimeAsync(5_000);
      expect(state).toEqual({});
    }
    move(101);
    await vi.advanceTimersByTimeAsync(50);
    expect(await state.response?.text()).toBe("at 101");
  });

  it("waits for a missing object, and returns 404 after the wait", async () => {
    const { changed } = table(5);
    const missing = async () => nothing("volume not found");
    const state = watch(blocking(call("index=1&wait=10s"), missing, changed, noJitter));
    await vi.advanceTimersByTimeAsync(9_999);
    expect(state).toEqual({});
    await vi.advanceTimersByTimeAsync(1);
    expect(state.failure).toMatchObject({ status: 404, messages: ["volume not found"] });
  });

  it("returns 404 at once for a missing object without an index", async () => {
    const { changed } = table(5);
    await expect(blocking(call(""), async () => nothing("volume not found"), changed)).rejects.toMatchObject({
      status: 404,
    });
  });

  it("returns the object as soon as it exists", async () => {
    const { read, changed, move, asked } = table(5);
    const found = async () => (asked.waits.length > 0 && (await read()).index > 5 ? read() : nothing("not found"));
    const state = watch(blocking(call("index=1"), found, changed));
    await vi.advanceTimersByTimeAsync(7_000);
    move(7);
    await vi.advanceTimersByTimeAsync(2_500);
    expect(await state.response?.text()).toBe("at 7");
  });

  it("waits for a change of a list, too", async () => {
    const { read, changed, move } = table(5);
    const listing: Listing<string> = {
      fetch: async () => ({ rows: ["a", "b"], next: null, index: (await read()).index }),
      token: (row) => row,
      stub: (row) => row,
    };
    const query = call("index=5&per_page=1");
    const state = watch(blocking(query, () => readList(query, listing), changed));
    await vi.advanceTimersByTimeAsync(10_000);
    expect(state).toEqual({});
    move(6);
    await vi.advanceTimersByTimeAsync(50);
    expect(await state.response?.json()).toEqual(["a"]);
    expect(state.response?.headers.get("X-Orch-Index")).toBe("6");
  });

  it("returns an error at once", async () => {
    const { changed } = table(5);
    const refused = async () => {
      throw badRequest("no");
    };
    await expect(blocking(call("index=9&wait=300s"), refused, changed)).rejects.toBeInstanceOf(RequestError);
    expect(Date.now()).toBe(STARTED);
  });

  it("returns the current data at once while too many queries wait, and 404 for a missing object", async () => {
    const { read, asked } = table(5);
    const full: Changed = async () => null;
    expect(await (await blocking(call("index=5"), read, full)).text()).toBe("at 5");
    expect([asked.reads, Date.now()]).toEqual([1, STARTED]);
    const missing = async () => nothing("volume not found");
    await expect(blocking(call("index=1"), missing, full)).rejects.toMatchObject({ status: 404 });
  });

  it("continues when the object restarts", async () => {
    const { read, changed, move, asked } = table(5);
    const restarting: Changed = async (since, waitMs) => {
      if (asked.reads < 3) throw new Error("reset");
      return changed(since, waitMs);
    };
    const state = watch(blocking(call("index=5"), read, restarting));
    await vi.advanceTimersByTimeAsync(1_000);
    expect(state).toEqual({});
    move(6);
    await vi.advanceTimersByTimeAsync(50);
    expect(await state.response?.text()).toBe("at 6");
  });

  it("stops when the client disconnects, without a change", async () => {
    const { read, changed, asked } = table(5);
    const client = new AbortController();
    const state = watch(blocking(call("index=5", client.signal), read, changed));
    await vi.advanceTimersByTimeAsync(1_000);
    const { reads } = asked;
    client.abort();
    await vi.advanceTimersByTimeAsync(400_000);
    expect(state.tookMs).toBe(1_000);
    expect(asked.reads).toBe(reads);
  });

  it("is refused when the caller loses its capability meanwhile", async () => {
    const { read, changed, move, asked } = table(5);
    let allowed = true;
    const recheck = async () => {
      if (!allowed) throw denied();
    };
    const state = watch(blocking(call("index=5", undefined, recheck), read, changed));
    await vi.advanceTimersByTimeAsync(5_000);
    allowed = false;
    const { reads } = asked;
    move(6);
    await vi.advanceTimersByTimeAsync(50);
    expect(state.failure).toMatchObject({ status: 403 });
    expect(asked.reads).toBe(reads);
  });

  it("is refused at the end of the wait, too", async () => {
    const { read, changed } = table(5);
    const recheck = () => Promise.reject(denied());
    const state = watch(blocking(call("index=5&wait=5s", undefined, recheck), read, changed, noJitter));
    await vi.advanceTimersByTimeAsync(5_000);
    expect(state.failure).toMatchObject({ status: 403 });
  });

  it("is no busy loop, for any answers of the object", async () => {
    for (const changed of [
      async () => 5,
      async () => 0,
      async () => Number.NaN,
      () => Promise.reject(new Error("down")),
    ]) {
      const { read, asked } = table(5);
      const state = watch(blocking(call("index=5&wait=300s"), read, changed, noJitter));
      await vi.advanceTimersByTimeAsync(300_000);
      expect(state.response?.status).toBe(200);
      expect(asked.reads).toBeLessThan(170);
    }
  });

  it("does not wait for changes that it has already read", async () => {
    const { changed, move, asked } = table(50);
    // A row that has not changed in a table that has.
    const read = async (): Promise<Reading> => ({ index: 5, respond: () => new Response("row") });
    const state = watch(blocking(call("index=5&wait=20s"), read, changed, noJitter));
    await vi.advanceTimersByTimeAsync(10_000);
    move(51);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await state.response?.text()).toBe("row");
    expect(asked.waits.map(({ since }) => since)).toEqual([5, 50, 51]);
  });

  it("waits at an object for at most half a minute per call", async () => {
    const { read, changed, asked } = table(5);
    watch(blocking(call("index=5"), read, changed));
    await vi.advanceTimersByTimeAsync(100_000);
    expect(Math.max(...asked.waits.map(({ waitMs }) => waitMs))).toBe(30_000);
  });
});

describe("the wait", () => {
  const waited = async (query: string, jitter = noJitter) => {
    const { read, changed } = table(5);
    const state = watch(blocking(call(`index=5&${query}`), read, changed, jitter));
    await vi.advanceTimersByTimeAsync(1_000_000);
    return state.tookMs;
  };

  it.each([
    ["", 300_000],
    ["wait=", 300_000],
    ["wait=0", 300_000],
    ["wait=0s", 300_000],
    ["wait=-5s", 300_000],
    ["wait=10m", 300_000],
    ["wait=1000h", 300_000],
    ["wait=300ms", 300],
    ["wait=1ns", 1],
    ["wait=10s", 10_000],
    ["wait=1m30s", 90_000],
    ["wait=0.05h", 180_000],
  ])("?%s is %i ms", async (query, ms) => {
    expect(await waited(query)).toBe(ms);
  });

  it("is extended randomly by up to a sixteenth, so that clients do not return at the same time", async () => {
    expect(await waited("wait=160s", () => 0.5)).toBe(165_000);
    expect(await waited("", () => 1)).toBe(318_750);
  });
});
