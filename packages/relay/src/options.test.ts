import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { Metrics } from "./metrics.ts";
import { InvalidOptions, readOptions, USAGE } from "./options.ts";
import { partsOf } from "./reporter.ts";

const ENV = { SALLYPORT_ADDR: "https://s.example", SALLYPORT_TOKEN: "t" };
const page = readFileSync("docs/guides/mirror-nomad.md", "utf8");

describe("readOptions", () => {
  it("has defaults, and accepts the words `relay nomad`", () => {
    expect(readOptions(["relay", "nomad"], ENV)).toMatchObject({
      source: "nomad/global",
      namespaces: null,
      reconcileMs: 600_000,
      stateDir: "/var/lib/sallyport-relay",
      metrics: { host: "127.0.0.1", port: 9464 },
    });
    const { source, namespaces, topics, metrics } = readOptions(
      ["nomad", "--namespace", "a", "--namespace", "b", "--topic", "Job", "--metrics", "[::1]:80"],
      { ...ENV, NOMAD_REGION: "eu" },
    );
    expect({ source, namespaces, topics, metrics }).toEqual({
      source: "nomad/eu",
      namespaces: new Set(["a", "b"]),
      topics: ["Job"],
      metrics: { host: "::1", port: 80 },
    });
  });

  it.each([
    [[], ENV, "the only kind of relay is nomad"],
    [["kubernetes"], ENV, "the only kind of relay is nomad"],
    [["nomad"], {}, "SALLYPORT_ADDR: must be set to a URL"],
    [["nomad"], { ...ENV, NOMAD_ADDR: "ftp://x" }, "NOMAD_ADDR: must be a URL"],
    [["nomad"], { ...ENV, NOMAD_TOKEN_FILE: "/nowhere" }, "NOMAD_TOKEN_FILE: ENOENT"],
    [["nomad", "--topic", "Variable"], ENV, "--topic: must be one of"],
    [["nomad", "--reconcile", "0s"], ENV, "--reconcile: must be from 1s to 24h"],
    [["nomad", "--metrics", "9464"], ENV, "--metrics: must be HOST:PORT or off"],
    [["nomad", "--source", "a b"], ENV, "--source: must be"],
    [["nomad", "--unknown"], ENV, "--unknown"],
  ])("rejects %j: %#", (argv, env, text) => {
    const read = () => readOptions(argv, env);
    expect(read).toThrow(InvalidOptions);
    expect(read).toThrow(text);
  });
});

it("the page names every option, variable and metric", () => {
  const words = [...USAGE.matchAll(/--[a-z-]+|(?:NOMAD|SALLYPORT)_[A-Z_]+/g)].map(([word]) => word);
  const metrics = [...new Metrics().text().matchAll(/^sallyport_relay_(\w+)/gm)].map(([, name]) => name ?? "");
  for (const word of [...words, ...metrics]) expect(page, word).toContain(`\`${word}\``);
});

describe("partsOf", () => {
  it("splits by bytes and by count, in order, without empty parts", () => {
    expect(partsOf(["a", "b", "c"], 100, 2)).toEqual([["a", "b"], ["c"]]);
    expect(partsOf(["aaaa", "bb", "cc", "dddddddd"], 4)).toEqual([["aaaa"], ["bb", "cc"], ["dddddddd"]]);
    expect(partsOf([])).toEqual([]);
  });
});
