import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { cli } from "./cli-program.ts";
import { programOf } from "./prepared-program.ts";

/* The program `sallyport` with usage, inputs and addresses that it cannot work with. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-usage-"));
afterAll(() => rmSync(dir, { recursive: true }));

describe("usage", () => {
  it.each([
    [
      ["relay", "nomad", "-state-dri=hunter2"],
      "nomad: -state-dri: no such option: did you mean `--state-dir`?\n\nUsage",
    ],
    [["doctor", "--unknown"], "doctor: --unknown: no such option\n\nUsage: sallyport doctor"],
    [["doctor", "--json=1"], "doctor: --json: takes no value"],
    [["cost", "--unknown"], "cost: --unknown: no such option"],
    [["doctor", "more"], 'unexpected argument "more"'],
    [["doctor"], "SALLYPORT_ADDR: must be set to a URL"],
    [["import", "vault", "--from"], "--from: needs a value"],
    [["snapshot", "save"], "FILE is missing"],
    [["relay", "nomad"], "relay nomad: SALLYPORT_ADDR: must be set to a URL\n\nUsage: sallyport relay nomad"],
    [["relay", "nomad", "--unknown"], "relay nomad: --unknown: no such option\n\nUsage: sallyport relay nomad"],
    [["import", "vault", "--from", "http://u:p@h"], "--from: must not contain credentials"],
  ])("ends with 2 for %j", async (args, text) => {
    const { code, err } = await cli(args, {});
    expect([code, err]).toEqual([2, expect.stringContaining(text)]);
    expect(err).not.toContain("u:p@");
  });

  it.each([
    [["kv", "gte", "--field", "x"], 'sallyport: no command "kv gte": did you mean `kv get`?'],
    [["snapshot"], "sallyport: name a command of snapshot: save, restore, list"],
    [["relay", "kubernetes"], 'sallyport: no command "relay kubernetes": the commands of relay are nomad'],
    [["policy", "--help"], 'sallyport: no command "policy": the commands are login, '],
    [["help", "kv", "gte"], 'sallyport: no command "kv gte": did you mean `kv get`?'],
    [["--bogus=hunter2"], "sallyport: --bogus: no such option: options follow the command"],
    [["kv", "--mount", "x", "get"], "sallyport kv: --mount: no such option: options follow the command"],
  ])("ends with 2 and one line for %j", async (args, text) => {
    const { code, out, err } = await cli(args, {});
    expect([code, out, err]).toEqual([2, "", expect.stringContaining(text)]);
    expect(err).toMatch(/^[^\n]{1,200}\n$/);
    expect(err).not.toContain("hunter2");
  });

  it.each([
    [
      ["snapshot", "--help"],
      ["snapshot save", "snapshot restore", "snapshot list"],
    ],
    [
      ["help", "import"],
      ["import vault", "import dump"],
    ],
    [
      ["help", "relay", "nomad"],
      ["Usage: sallyport relay nomad [options]", "--state-dir"],
    ],
    [["--help"], ["relay nomad", "doctor", "Exit codes: 0 done"]],
    // A line of the text that does not fit leaves no line with one word.
    [["events", "tail", "--help"], ["last\nindex, so that no event is lost"]],
  ])("prints help for %j", async (args, words) => {
    const { code, out, err } = await cli(args, {});
    expect([code, err]).toEqual([0, ""]);
    for (const word of words) expect(out).toContain(word);
  });
});

describe("a reader that ends first", () => {
  it.each([["completion bash"], ["--help"]])("ends %s without a message", (line) => {
    const command = `"$0" "$1" ${line} | true; echo "\${PIPESTATUS[0]}"`;
    const words = ["-c", command, process.execPath, programOf("packages/cli/src/main.ts")];
    // Bash reads its start files when its input is a socket.
    const { stdout, stderr } = spawnSync("bash", words, {
      env: PROGRAM_ENV,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
    });
    expect([stdout, stderr]).toEqual([expect.stringMatching(/^(0|141)\n$/), ""]);
  });
});

describe("an address that does not answer", () => {
  it.each([
    [["import", "vault", "--from", "http://127.0.0.1:65533"], "http://127.0.0.1:65533"],
    [["import", "dump", "-"], "http://127.0.0.1:65534"],
    [["snapshot", "save", "never.snapshot"], "http://127.0.0.1:65534"],
    [["snapshot", "list"], "http://127.0.0.1:65534"],
    [["agent", "join"], "http://127.0.0.1:65534"],
  ])("ends %j with the address and the cause, without repetitions", async (args, address) => {
    const settings = { SALLYPORT_ADDR: "http://127.0.0.1:65534", SALLYPORT_TOKEN: "t", VAULT_TOKEN: "t" };
    const started = Date.now();
    const { code, out, err } = await cli(args, settings, '{"path":"a/b","data":{"k":"v"}}');
    expect([code, out, err]).toEqual([1, "", expect.stringContaining(`${address}: no answer: connect ECONNREFUSED`)]);
    expect(Date.now() - started).toBeLessThan(30_000);
    expect(existsSync("never.snapshot")).toBe(false);
  });
});

describe("an input", () => {
  // Nothing listens there: an input is judged before the first request.
  const settings = { SALLYPORT_ADDR: "http://127.0.0.1:65534", SALLYPORT_TOKEN: "t", VAULT_TOKEN: "t" };
  const file = (content: string | Buffer): string => {
    const path = join(dir, "input");
    writeFileSync(path, content);
    return path;
  };
  const DUMP = "must be JSON as `vault kv get -format=json` prints it";

  it.each([
    ["", "is empty"],
    [" \n\t\n", "is empty"],
    ["user=ann\nword=hunter2\n", DUMP],
    ["hunter2", DUMP],
    ['"hunter2"', DUMP],
    ["null", DUMP],
    ['{"path":"a/b","data":{"k":"hunter2"}', DUMP],
    ['{"path":"a/b","data":{"k":"v"}} hunter2', DUMP],
    ['hunter2 {"path":"a/b","data":{"k":"v"}}', DUMP],
    ['{"path":"a/b","data":{"k":"v"}}, {"path":"a/c","data":{"k":"v"}}', DUMP],
    ["}{", DUMP],
    ["{}", "has no secret"],
    ["[]", "document 1: must be an object"],
    [Buffer.from([0x7b, 0xff, 0x7d]), "is not UTF-8 text"],
  ])("of import dump that is %j ends with 2 before anything is sent", async (content, text) => {
    const path = file(content);
    const named = await cli(["import", "dump", path], settings);
    expect([named.code, named.out, named.err]).toEqual([2, "", expect.stringContaining(path)]);
    expect(named.err.split("\n")[0]).toContain(text);
    expect(named.err).not.toContain("hunter2");
  });

  it.each([
    ["", "the standard input is empty"],
    ["hunter2", DUMP],
  ])("of import dump that is piped as %j ends with 2 in the same way", async (content, text) => {
    const { code, out, err } = await cli(["import", "dump", "-"], settings, content);
    expect([code, out, err.split("\n")[0]]).toEqual([2, "", expect.stringContaining(text)]);
    expect(err).not.toContain("hunter2");
  });

  it.each([
    [["import", "vault", "--from", "http://127.0.0.1:65533", "--credentials"], "", "--credentials: "],
    [
      ["import", "vault", "--from", "http://127.0.0.1:65533", "--credentials"],
      "a=hunter2",
      "--credentials: must be a JSON",
    ],
    [["snapshot", "restore"], "", "is empty"],
  ])("of %j that is %j ends with 2", async (args, content, text) => {
    const { code, out, err } = await cli([...args, file(content)], settings);
    expect([code, out, err]).toEqual([2, "", expect.stringContaining(text)]);
    expect(err).not.toContain("hunter2");
  });

  it("that is a directory, or a token file without a token, ends with 2", async () => {
    const restored = await cli(["snapshot", "restore", dir], settings);
    expect([restored.code, restored.err]).toEqual([2, expect.stringContaining(`FILE: ${dir} is not a file`)]);
    const token = { SALLYPORT_ADDR: "http://127.0.0.1:65534", SALLYPORT_TOKEN_FILE: file("\n") };
    const { code, err } = await cli(["doctor"], token);
    expect([code, err]).toEqual([2, expect.stringContaining("SALLYPORT_TOKEN_FILE: ")]);
  });
});
