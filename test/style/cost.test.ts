import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { bill, DEFAULTS, type Deployment, OPERATIONS } from "../../scripts/cost-model.ts";

const page = readFileSync("docs/operate/cost.md", "utf8");

/** The deployment of a line of options. */
const deployment = (options: string): Deployment => ({
  ...DEFAULTS,
  ...Object.fromEntries([...options.matchAll(/--(\w+) ([\d.]+)/g)].map(([, name, value]) => [name, Number(value)])),
});

const MEDIUM = deployment("--reads 100 --nodes 1000 --streams 500 --synced 10000");

const dollarsOf = (of: Deployment, item: string): number =>
  bill(of).lines.find((line) => line.item === item)?.dollars ?? Number.NaN;

describe("the bill", () => {
  it("of 100 reads a second, 1 000 nodes, 500 streams and 10 000 synced secrets is below 200 dollars", () => {
    expect(bill(MEDIUM).total).toBeLessThan(200);
  });

  it("has a line for each item, whose dollars are the amount beyond what is included", () => {
    const month = 30 * 86_400;
    const { lines, total } = bill({ ...DEFAULTS, reads: 100, writes: 0, logins: 0 });
    const requests = lines.find(({ item }) => item === "requests to the Worker");
    expect(requests?.amount).toBe(100 * month + month / 30 + month / 300);
    expect(requests?.dollars).toBeCloseTo((((requests?.amount ?? 0) - 10e6) / 1e6) * 0.3, 6);
    expect(total).toBeCloseTo(
      lines.reduce((sum, { dollars }) => sum + dollars, 0),
      6,
    );
  });

  it("of 10 000 idle subscriptions is below a dollar more, and has no time of objects", () => {
    const [without, idle] = [bill(DEFAULTS), bill({ ...DEFAULTS, subscribers: 10_000 })];
    expect(idle.total - without.total).toBeGreaterThan(0.5);
    expect(idle.total - without.total).toBeLessThan(1);
    const time = ({ lines }: typeof idle) => lines.find(({ item }) => item === "time of objects")?.dollars;
    expect(time(idle)).toBe(time(without));
  });

  it("of objects' time is that of the page on the platform's limits, before and after the compatibility date", () => {
    const limits = readFileSync("docs/internals/platform-limits.md", "utf8");
    const whole = (amount: number) => Math.round(amount).toLocaleString("en-US");
    for (const [, size = "", options = ""] of page.matchAll(/^\| (Small|Medium|Large) \| `(.+)` \|$/gm)) {
      const time = bill(deployment(options)).lines.find(({ item }) => item === "time of objects");
      const calls = time?.parts.find(([what]) => what === "calls")?.[1] ?? 0;
      const all = time?.amount ?? 0;
      const cells = [size, whole(all - calls), whole(calls), whole(all), whole(all), time?.dollars.toFixed(2)];
      expect(limits).toContain(`| ${cells.join(" | ")} |`);
    }
    const held = (seconds: number) => seconds * 0.128;
    expect([held(15 * 60), held(70), held(140), held(30 * 86_400)].map((each) => Number(each.toFixed(1)))).toEqual([
      115.2, 9, 17.9, 331_776,
    ]);
  });

  it("counts every stored line", () => {
    expect(dollarsOf({ ...MEDIUM, sampling: 1 }, "log, ingested")).toBeGreaterThan(80);
    expect(dollarsOf(MEDIUM, "log, ingested")).toBe(0);
  });

  it("with a whole audit log in a bucket is below 200 dollars open, and below 400 closed", () => {
    expect(bill({ ...MEDIUM, bucket: true, open: true }).total).toBeLessThan(200);
    expect(bill({ ...MEDIUM, bucket: true }).total).toBeLessThan(400);
  });

  it("counts at most one write of a region each AUDIT_BATCH_MS", () => {
    const writes = (reads: number) =>
      bill({ ...DEFAULTS, reads, bucket: true }).lines.find(({ item }) => item === "audit bucket")?.amount ?? 0;
    const most = (DEFAULTS.places * 30 * 86_400) / 0.2;
    expect(writes(100_000)).toBeLessThanOrEqual(most);
    expect(writes(100_000)).toBeGreaterThan(0.99 * most);
    expect(writes(10)).toBeLessThan(0.8 * most);
  });
});

/** Rows of the page for an audit log. */
const AUDIT_LOGS = {
  "sampled, without a sink": {},
  "`--bucket --open`": { bucket: true, open: true },
  "`--bucket`": { bucket: true },
  "`--queue --open`": { queue: true, open: true },
} as const;

describe("docs/operate/cost.md", () => {
  const rows = [...page.matchAll(/^\| (.+) \|$/gm)].map(([, row = ""]) => row.split(" | "));
  const sizes = rows.flatMap(([size = "", options = ""]) =>
    /^(Small|Medium|Large)$/.test(size) && options.includes("--") ? [deployment(options)] : [],
  );
  const bills = sizes.map(bill);

  it("has the bills of its three sizes", () => {
    expect(sizes).toHaveLength(3);
    const numbers = rows.filter((row) => row.length === 4 && row.slice(1).every((cell) => /^\d+$/.test(cell)));
    const shown = numbers.filter(([item = ""]) => !Object.hasOwn(AUDIT_LOGS, item));
    const items = bills[2]?.lines.map(({ item }) => item) ?? [];
    expect(shown.map(([item]) => item)).toEqual([...items, "total"]);
    for (const [item, ...dollars] of shown) {
      const found = bills.map(({ lines, total }) =>
        item === "total" ? total : (lines.find((line) => line.item === item)?.dollars ?? 0),
      );
      expect(dollars, item).toEqual(found.map((each) => String(Math.round(each))));
    }
  });

  it.each(Object.entries(AUDIT_LOGS))("has the bills of an audit log: %s", (name, audit) => {
    const [, ...dollars] = rows.find(([item]) => item === name) ?? [];
    expect(dollars).toEqual(sizes.map((size) => String(Math.round(bill({ ...size, ...audit }).total))));
  });

  it("has the table of operations", () => {
    const listed = Object.entries(OPERATIONS).map(([name, { rows: own, leased, alarms, lines }]) =>
      [name, own, own + leased, alarms, lines].map(String),
    );
    expect(rows.filter(([name = ""]) => Object.hasOwn(OPERATIONS, name))).toEqual(listed);
  });
});

it("docs/operate/audit.md has the bills of the medium size", () => {
  const told = [...readFileSync("docs/operate/audit.md", "utf8").matchAll(/^\| .* \| (\d+)(?: dollars)? \|$/gm)];
  const audits = [{}, { bucket: true, open: true }, { sampling: 1 }, { bucket: true }];
  expect(told.map(([, dollars]) => Number(dollars))).toEqual(
    audits.map((audit) => Math.round(bill({ ...MEDIUM, ...audit }).total)),
  );
});

it("wrangler.toml stores the lines of the share of requests that the bill assumes, and none of the platform's own", () => {
  const config = readFileSync("wrangler.toml", "utf8");
  expect(Number(/^head_sampling_rate = (\S+)$/m.exec(config)?.[1])).toBe(DEFAULTS.sampling);
  expect(config).toMatch(/^invocation_logs = false$/m);
});

it.each([
  [["--unknown", "1"], "Unknown option '--unknown'"],
  [["--reads", "many"], "--reads: must be a number, 0 or more"],
])("the command refuses %j with the list of its options", (args, message) => {
  const { status, stderr } = spawnSync(process.execPath, ["scripts/cost.ts", ...args], { encoding: "utf8" });
  expect([status, stderr]).toEqual([2, expect.stringContaining(message)]);
  for (const name of Object.keys(DEFAULTS)) expect(stderr).toContain(`--${name}`);
});
