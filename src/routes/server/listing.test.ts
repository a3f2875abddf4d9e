import { describe, expect, it } from "vitest";
import { clusterHeader } from "../../compat/dialect.ts";
import * as kind from "../../lib/bexpr/kinds.ts";
import { type Listing, list, type Page } from "./listing.ts";

interface Row {
  readonly id: string;
  readonly size: number;
}

const ids = (count: number): Row[] =>
  Array.from({ length: count }, (_, n) => ({ id: `default.vol-${String(n).padStart(5, "0")}`, size: n }));

/** A table that answers at most `most` rows a fetch, as an object does, and counts what it is asked. */
function table(rows: readonly Row[], most = 1_000) {
  const fetches: { from: string; limit: number }[] = [];
  const fetch = async (from: string, limit: number, reverse: boolean): Promise<Page<Row>> => {
    fetches.push({ from, limit });
    const ordered = reverse ? rows.toReversed() : rows;
    const rest = ordered.filter(({ id }) => from === "" || (reverse ? id <= from : id >= from));
    const taken = rest.slice(0, Math.min(limit, most));
    return { rows: taken, next: rest[taken.length]?.id ?? null, index: 40 + fetches.length };
  };
  const listing: Listing<Row> = {
    fetch,
    token: ({ id }) => id,
    stub: ({ id }) => ({ ID: id }),
    fields: kind.record<Row>({ size: kind.integer }),
  };
  return { fetches, listing };
}

const call = (query: string) => ({ query: new URLSearchParams(query) });
const stubs = (rows: readonly Row[]) => rows.map(({ id }) => ({ ID: id }));
const tokenOf = (response: Response) => response.headers.get("X-Orch-NextToken");

const refusal = async (query: string, listing = table([]).listing) => {
  const failure = await list(call(query), listing).catch((thrown: unknown) => thrown);
  return failure instanceof Response ? `answered ${failure.status}` : failure;
};

describe("a list without per_page", () => {
  it("has every row in order, and no token", async () => {
    const rows = ids(7);
    const response = await list(call(""), table(rows).listing);
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toBe("application/json");
    for (const name of clusterHeader.nextToken) expect(response.headers.get(name)).toBeNull();
    expect(await response.json()).toEqual(stubs(rows));
  });

  it("is an empty array without rows", async () => {
    expect(await (await list(call(""), table([]).listing)).text()).toBe("[]");
    expect(await (await list(call("pretty"), table([]).listing)).text()).toBe("[]\n");
  });

  it("has the index of its first piece, for any concurrent writes", async () => {
    const response = await list(call(""), table(ids(50), 10).listing);
    for (const name of clusterHeader.index) expect(response.headers.get(name)).toBe("41");
  });

  it("has an index of at least 1, so that clients can wait with it", async () => {
    const { listing } = table([]);
    const unborn = { ...listing, fetch: async () => ({ rows: [], next: null, index: 0 }) };
    expect((await list(call(""), unborn)).headers.get("X-Orch-Index")).toBe("1");
  });

  it("reads a large table no faster than the client", async () => {
    const { listing, fetches } = table(ids(20_000));
    const response = await list(call(""), listing);
    const reader = response.body?.getReader();
    await reader?.read();
    expect(fetches.length).toBeLessThan(5);
    await reader?.cancel();
    expect(fetches.length).toBeLessThan(5);
  });

  it("has the same text in pieces as in one, pretty or not", async () => {
    const rows = ids(2_500);
    for (const query of ["", "pretty", "pretty=0"]) {
      const indent = query === "pretty" ? 4 : undefined;
      const expected = JSON.stringify(stubs(rows), null, indent) + (query === "pretty" ? "\n" : "");
      const { listing, fetches } = table(rows);
      expect(await (await list(call(query), listing)).text()).toBe(expected);
      expect(fetches.length).toBe(3);
    }
  });

  it("omits rows that the caller may not read", async () => {
    const { listing } = table(ids(2_500));
    const response = await list(call(""), { ...listing, visible: ({ size }) => size % 500 === 3 });
    expect(await response.json()).toEqual(stubs(ids(2_500).filter(({ size }) => size % 500 === 3)));
  });
});

describe("a list by pages", () => {
  it("has as many rows as requested, and the token of the next row", async () => {
    const rows = ids(5);
    const response = await list(call("per_page=2"), table(rows).listing);
    expect(await response.json()).toEqual(stubs(rows.slice(0, 2)));
    for (const name of clusterHeader.nextToken) expect(response.headers.get(name)).toBe("default.vol-00002");
  });

  it("has no token on the last page, also when it is full", async () => {
    const response = await list(call("per_page=2&next_token=default.vol-00003"), table(ids(5)).listing);
    expect(await response.json()).toHaveLength(2);
    expect(tokenOf(response)).toBeNull();
  });

  it("starts at the first row from the token on, which may be missing", async () => {
    const response = await list(call("per_page=1&next_token=default.vol-00002x"), table(ids(5)).listing);
    expect(await response.json()).toEqual([{ ID: "default.vol-00003" }]);
  });

  it("is empty for a token past the end", async () => {
    const response = await list(call("per_page=1&next_token=z"), table(ids(5)).listing);
    expect(await response.text()).toBe("[]");
  });

  it.each([1, 2, 3, 7, 100, 5_000])("has every visible row exactly once, %i to a page", async (perPage) => {
    const rows = ids(60);
    const visible = ({ size }: Row) => size % 3 === 1;
    const { listing } = table(rows, 4);
    const seen: unknown[] = [];
    let token = "";
    do {
      const response = await list(call(`per_page=${perPage}&next_token=${token}`), { ...listing, visible });
      const page = (await response.json()) as unknown[];
      token = tokenOf(response) ?? "";
      expect(page).toHaveLength(token === "" ? page.length : perPage);
      expect(page.length).toBeGreaterThan(0);
      seen.push(...page);
    } while (token !== "");
    expect(seen).toEqual(stubs(rows.filter(visible)));
  });

  it("is reversed if the table supports it", async () => {
    const rows = ids(5);
    const first = await list(call("per_page=2&reverse=true"), table(rows).listing);
    expect(await first.json()).toEqual(stubs([rows[4], rows[3]] as Row[]));
    const second = await list(call(`per_page=2&reverse=true&next_token=${tokenOf(first)}`), table(rows).listing);
    expect(await second.json()).toEqual(stubs([rows[2], rows[1]] as Row[]));
  });

  it("is reversed for the whole table, in small pieces", async () => {
    const rows = ids(9);
    for (const query of ["reverse=true", "reverse=true&per_page=9"]) {
      const response = await list(call(query), table(rows, 2).listing);
      expect(await response.json()).toEqual(stubs(rows.toReversed()));
    }
  });

  it("loses nothing when the token's row is deleted between two pages", async () => {
    const rows = ids(5);
    const first = await list(call("per_page=2"), table(rows).listing);
    const left = rows.toSpliced(2, 1);
    const second = await list(call(`per_page=9&next_token=${tokenOf(first)}`), table(left).listing);
    expect(await second.json()).toEqual(stubs(rows.slice(3)));
  });

  it("has a valid token for ids of any characters", async () => {
    const rows = ["a.50%", "b. x", "c.größe", "d.日本\u{1f600}"].map((id, size) => ({ id, size }));
    let token: string | null = "";
    const seen: unknown[] = [];
    while (token !== null) {
      const query: string = new URLSearchParams({ per_page: "1", next_token: token }).toString();
      const response = await list(call(query), table(rows).listing);
      seen.push(...((await response.json()) as unknown[]));
      token = tokenOf(response);
    }
    expect(seen).toEqual(stubs(rows));
  });

  it("bounds its reads when few rows match: the page is short and its token continues", async () => {
    const { listing, fetches } = table(ids(900), 2);
    const response = await list(call("per_page=5&filter=size == 899"), listing);
    expect(await response.text()).toBe("[]");
    expect(fetches.length).toBe(201);
    expect(tokenOf(response)).toBe("default.vol-00400");
  });

  it("has no token of a row that the caller may not read", async () => {
    const { listing, fetches } = table(ids(3_000), 2);
    const seen = (size: number) => ({ ...listing, visible: (row: Row) => row.size === size });
    const response = await list(call("per_page=5"), seen(899));
    expect(await response.text()).toBe("[]");
    expect(tokenOf(response)).toBe("default.vol-00899");
    const before = fetches.length;
    expect(await refusal("per_page=5", seen(2_999))).toMatchObject({
      status: 400,
      messages: ["too many rows that you may not see lie before the next one: ask for one namespace"],
    });
    expect(fetches.length - before).toBe(800);
  });

  it("ends early when its rows are large, with a token to continue", async () => {
    const { listing } = table(ids(3_000));
    const fat = { ...listing, stub: () => "x".repeat(1_000_000) };
    const response = await list(call("per_page=2000000000"), fat);
    expect(await response.json()).toHaveLength(9);
    expect(tokenOf(response)).toBe("default.vol-00009");
  });
});

describe("a filtered list", () => {
  const few = (rows: readonly Row[]) => rows.filter(({ size }) => size === 7 || size === 1_900);

  it("has the matching rows, also by hidden fields", async () => {
    const rows = ids(2_500);
    const response = await list(call("filter=size == 7 or size == 1900"), table(rows).listing);
    expect(await response.json()).toEqual(stubs(few(rows)));
  });

  it("counts matching rows only, and its token is the next match", async () => {
    const rows = ids(2_500);
    const { listing } = table(rows);
    const first = await list(call("per_page=1&filter=size == 7 or size == 1900"), listing);
    expect(await first.json()).toEqual([{ ID: "default.vol-00007" }]);
    expect(tokenOf(first)).toBe("default.vol-01900");
    const query = `per_page=1&next_token=${tokenOf(first)}&filter=size == 7 or size == 1900`;
    const second = await list(call(query), listing);
    expect(await second.json()).toEqual([{ ID: "default.vol-01900" }]);
    expect(tokenOf(second)).toBeNull();
  });

  it("has no row that the caller may not read", async () => {
    const { listing } = table(ids(20));
    const response = await list(call("filter=size == 7"), { ...listing, visible: ({ size }) => size !== 7 });
    expect(await response.text()).toBe("[]");
  });

  it.each(["id == x", "size == x", "size =="])("is refused before any read: %s", async (filter) => {
    const { listing, fetches } = table([]);
    expect(await refusal(new URLSearchParams({ filter }).toString(), listing)).toMatchObject({ name: "FilterError" });
    expect(fetches).toEqual([]);
  });

  it("is complete for lists without a filter parameter", async () => {
    const { fields: _fields, ...listing } = table(ids(3)).listing;
    expect(await (await list(call("filter=nonsense"), listing)).json()).toHaveLength(3);
  });
});

describe("a list whose token is in the body", () => {
  it("has rows and token in one object", async () => {
    const { listing } = table(ids(3));
    const claims = { ...listing, wrap: "Claims" };
    const page = await list(call("per_page=2"), claims);
    expect(await page.json()).toEqual({ Claims: stubs(ids(2)), NextToken: "default.vol-00002" });
    expect(tokenOf(page)).toBe("default.vol-00002");
    expect(await (await list(call("per_page=3"), claims)).text()).toMatch(/,"NextToken":""}$/);
    expect(await (await list(call(""), claims)).json()).toEqual({ Claims: stubs(ids(3)), NextToken: "" });
  });

  it("has the same text as the whole object", async () => {
    for (const rows of [[], ids(1), ids(1_500)]) {
      const { listing } = table(rows);
      const whole = { Claims: stubs(rows), NextToken: "" };
      const claims = { ...listing, wrap: "Claims" };
      expect(await (await list(call(""), claims)).text()).toBe(JSON.stringify(whole));
      expect(await (await list(call("pretty"), claims)).text()).toBe(`${JSON.stringify(whole, null, 4)}\n`);
    }
  });
});

describe("an invalid parameter of a list", () => {
  it.each(["-1", "x", "1.5", "2147483648", "99999999999999999999", " "])("per_page=%s is refused", async (perPage) => {
    expect(await refusal(new URLSearchParams({ per_page: perPage }).toString())).toMatchObject({
      status: 400,
      messages: ["Expect a number for `per_page` query string parameter"],
    });
  });

  it("per_page is refused when it is absent but required", async () => {
    const { listing } = table(ids(3));
    const paged = { ...listing, paged: true };
    expect(await refusal("", paged)).toMatchObject({ status: 400, messages: ["per_page: is required"] });
    expect(await refusal("per_page=0", paged)).toBe("answered 200");
  });
});
