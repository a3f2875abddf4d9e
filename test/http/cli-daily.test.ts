import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Readable } from "node:stream";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { startIdentityProvider } from "../console/support/identity-provider.ts";
import { type Providers, startProviders } from "../faults/providers.ts";
import { freePort } from "../smoke/local-service.ts";
import { PROGRAM_ENV } from "../support/program-env.ts";
import { cli, type Ended, startCli } from "./cli-program.ts";
import { Service } from "./events-service.ts";
import { programOf } from "./prepared-program.ts";

/* The commands of daily work against the whole runtime: secrets, logins, programs with secrets, sync, events. */

const dir = mkdtempSync(join(tmpdir(), "sallyport-daily-"));
const providers: { current?: Providers } = {};
const services: { main?: Service } = {};
const service = (): Service => services.main as Service;

beforeAll(async () => {
  providers.current = await startProviders();
  services.main = new Service({
    ...providers.current.settings,
    SERVICE_EVENTS: "Secret,Lease,Engine",
    PRIVATE_HOSTS: "127.0.0.1 localhost",
  });
  await service().create();
  await service().must("PUT", "/v1/sys/mounts/secret", { type: "kv", options: { version: "2" } });
  await service().must("PUT", "/v1/sys/mounts/plain", { type: "kv" });
}, 300_000);
afterAll(async () => {
  rmSync(dir, { recursive: true });
  await Promise.all([service().destroy(), providers.current?.close()]);
});

/** Each test has a home, and so no login of another one. */
const home = { current: "" };
beforeEach(() => {
  home.current = mkdtempSync(join(dir, "home-"));
});

const env = (token = "root") => ({ HOME: home.current, SALLYPORT_ADDR: service().base, SALLYPORT_TOKEN: token });
const sallyport = (
  args: readonly string[],
  input = "",
  settings: Readonly<Record<string, string>> = env(),
): Promise<Ended> => cli(args, settings, input);

/** The result of a command that has to succeed. */
async function ok(args: readonly string[], input = ""): Promise<string> {
  const { code, out, err } = await sallyport(args, input);
  expect([code, err], args.join(" ")).toEqual([0, expect.any(String)]);
  return out;
}

const file = (name: string, content: string): string => {
  const path = join(home.current, name);
  writeFileSync(path, content);
  return path;
};

describe("kv", () => {
  it("writes and reads values of every form, as they were given", async () => {
    const pem = "-----BEGIN KEY-----\nMIIB\n-----END KEY-----\n";
    const rows: readonly (readonly [
      pairs: readonly string[],
      input: string,
      data: Readonly<Record<string, unknown>>,
    ])[] = [
      [["a=1", "b=x=y", "c="], "", { a: "1", b: "x=y", c: "" }],
      [[`key=@${file("key.pem", pem)}`], "", { key: pem }],
      [["key=-"], "two\nlines", { key: "two\nlines" }],
      [["handle=\\@ann"], "", { handle: "@ann" }],
      [["-", "b=2"], '{"a":{"n":[1,null]},"b":1}', { a: { n: [1, null] }, b: "2" }],
      [[`@${file("all.json", '{"ü":"ß"}')}`], "", { ü: "ß" }],
    ];
    for (const mount of ["secret", "plain"])
      for (const [pairs, input, data] of rows) {
        await ok(["kv", "put", `${mount}/forms`, ...pairs], input);
        expect(JSON.parse(await ok(["kv", "get", `${mount}/forms`, "--json"])).data, pairs.join(" ")).toEqual(data);
      }
    expect(await ok(["kv", "get", "secret/forms", "--field", "ü"])).toBe("ß");
  });

  it("keeps the digits of numbers in every copy", async () => {
    await ok(["kv", "put", "secret/digits", "-"], '{"n":12345678901234567890,"f":1.50}');
    await ok(["kv", "cp", "secret/digits", "secret/digits-2"]);
    await ok(["kv", "put", "secret/digits-2", "x=1"]);
    await ok(["kv", "rollback", "secret/digits-2"]);
    expect(await ok(["kv", "get", "secret/digits-2"])).toBe("n  12345678901234567890\nf  1.50\n");
    expect(await ok(["env", "pull", "secret/digits-2", "--format", "yaml"])).toContain("n: 12345678901234567890\n");
  });

  it("patches, shows the history, compares, rolls back, deletes and brings back", async () => {
    const at = "secret/life/db";
    const steps: readonly (readonly [args: readonly string[], code: number, out: string | RegExp])[] = [
      [["kv", "put", at, "user=app", "password=p1", "--cas", "0"], 0, `${at}: version 1\n`],
      [["kv", "put", at, "user=app", "--cas", "0"], 1, ""],
      [["kv", "patch", at, "password=p2", "host=h", "--remove", "user"], 0, `${at}: version 2\n`],
      [["kv", "diff", at], 0, "+ host\n~ password\n- user\n"],
      [["kv", "diff", at, "--show"], 0, "+ host\n    + h\n~ password\n    - p1\n    + p2\n- user\n    - app\n"],
      [["kv", "diff", at, "--from", "1", "--to", "2", "--exit-code"], 1, "+ host\n~ password\n- user\n"],
      [["kv", "rollback", at, "--version", "1"], 0, `${at}: version 3\n`],
      [["kv", "get", at], 0, "user      app\npassword  p1\n"],
      [["kv", "rm", at], 0, `removed ${at}\n`],
      [["kv", "get", at], 1, ""],
      [["kv", "rollback", at, "--version", "2"], 0, `${at}: version 4\n`],
      [["kv", "undelete", at, "--version", "3"], 0, `${at}: version 3 is back\n`],
      [["kv", "rm", at, "--version", "1", "--destroy"], 0, `removed ${at} version 1\n`],
      [["kv", "get", at, "--version", "1"], 1, ""],
      [
        ["kv", "history", at],
        0,
        /^version +created +by +state\n4 .* root +current\n3 .*Z +root\n2 .*\n1 .* root +destroyed by root\n$/,
      ],
      [["kv", "rm", at, "--all"], 0, `removed ${at}\n`],
      [["kv", "history", at], 1, ""],
    ];
    for (const [args, code, out] of steps) {
      const ended = await sallyport(args);
      expect([ended.code, ended.out], `${args.join(" ")} ${ended.err}`).toEqual([
        code,
        typeof out === "string" ? out : expect.stringMatching(out),
      ]);
      if (code === 1 && out === "") expect(ended.err, args.join(" ")).toMatch(/^sallyport kv \w+: .+\n$/);
    }
  });

  it("copies, moves and compares folders across mounts, and goes on after a failure", async () => {
    for (const name of ["a", "b/c"]) await ok(["kv", "put", `secret/from/${name}`, `name=${name}`]);
    await service().must("POST", "/v1/secret/metadata/from/a", { custom_metadata: { team: "web" } });
    expect(await ok(["kv", "cp", "secret/from/", "plain/to/", "--dry-run"])).toMatch(
      /^would copy .*\nwould copy .*\n$/,
    );
    await ok(["kv", "cp", "secret/from/", "plain/to/"]);
    expect(await ok(["kv", "diff", "secret/from/", "plain/to/"])).toBe("");
    await ok(["kv", "put", "plain/to/a", "name=other"]);
    expect(await ok(["kv", "diff", "secret/from/", "plain/to/"])).toBe("~ a name\n");
    const refused = await sallyport(["kv", "cp", "secret/from/", "plain/to/"]);
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("1 secret is there with other values")]);
    expect(refused.out).toContain("already there: secret/from/b/c");
    await ok(["kv", "mv", "secret/from/", "secret/moved/"]);
    expect(await ok(["kv", "list", "secret/moved"])).toBe("a\nb/\n");
    const { body } = await service().must("GET", "/v1/secret/metadata/moved/a");
    expect(body.data.custom_metadata).toEqual({ team: "web" });
    expect((await service().call("GET", "/v1/secret/metadata/from/a"))?.status).toBe(404);
    expect((await ok(["kv", "find", "moved/*c"])).split("\n")).toEqual(["secret/moved/b/c", ""]);
    expect(JSON.parse(await ok(["kv", "find", "TO/A", "--json"]))).toEqual(["plain/to/a"]);
    // A secret keeps its name in a folder; version 1 of KV is renamed in the same way.
    expect(await ok(["kv", "cp", "secret/moved/a", "plain/to/b/"])).toBe("copied secret/moved/a to plain/to/b/a\n");
    expect(await ok(["kv", "mv", "plain/to/b/", "plain/to/d/"])).toMatch(/^(moved plain\/to\/b\/[ac] .*\n){2}$/);
    expect(await ok(["kv", "mv", "plain/to/d/a", "plain/to/e"])).toBe("moved plain/to/d/a to plain/to/e\n");
    expect(await ok(["kv", "find", "plain/to"])).toBe("plain/to/a\nplain/to/d/c\nplain/to/e\n");
    await ok(["kv", "rm", "plain/to/", "--all"]);
    expect((await sallyport(["kv", "find", "plain/to"])).code).toBe(1);
  });

  it("moves the custom metadata when an earlier move has broken off behind the values", async () => {
    for (const name of ["broken", "off"]) await ok(["kv", "put", `secret/${name}`, "word=w1"]);
    await service().must("POST", "/v1/secret/metadata/broken", { custom_metadata: { team: "web" } });
    expect(await ok(["kv", "mv", "secret/broken", "secret/off"])).toBe("moved secret/broken to secret/off\n");
    const { body } = await service().must("GET", "/v1/secret/metadata/off");
    expect([body.data.custom_metadata, body.data.current_version]).toEqual([{ team: "web" }, 1]);
    expect((await service().call("GET", "/v1/secret/metadata/broken"))?.status).toBe(404);
  });

  it("says that the old secret is left where it may be copied, but not removed", async () => {
    await ok(["kv", "put", "secret/kept", "word=w1"]);
    const rules = 'path "secret/*" { capabilities = ["create", "read", "update", "list"] }';
    await service().must("PUT", "/v1/sys/policies/acl/copier", { policy: rules });
    const { body } = await service().must("POST", "/v1/auth/token/create", { policies: ["copier"] });
    const moved = await sallyport(["kv", "mv", "secret/kept", "secret/copy"], "", env(body.auth.client_token));
    expect([moved.code, moved.out]).toEqual([1, ""]);
    expect(moved.err).toMatch(
      /^copied secret\/kept to secret\/copy, and the old one is left:\nsallyport kv mv: DELETE .* 403/,
    );
    expect(await ok(["kv", "get", "secret/kept", "--field", "word"])).toContain("w1");
  });

  it("shares a secret of either version once, by a link of the console", async () => {
    await ok(["kv", "put", "plain/shared", "word=w1"]);
    await ok(["kv", "put", "secret/shared", "word=w2"]);
    for (const [path, value] of [
      ["plain/shared", { word: "w1" }],
      ["secret/shared", { data: { word: "w2" }, metadata: expect.anything() }],
    ] as const) {
      const { out, err } = await sallyport(["kv", "share", path, "--ttl", "1h"]);
      const url = new URL(out.trim());
      expect([url.origin, url.pathname, err]).toEqual([
        service().base,
        "/ui/open",
        expect.stringMatching(/^Opens once, until \S+Z\. Accessor \S+\.\n$/),
      ]);
      const [token = "", ends = ""] = url.hash.slice(1).split("~");
      expect(Math.abs(Number(ends) - Date.now() / 1000 - 3600)).toBeLessThan(300);
      const opened = await service().must("POST", "/v1/sys/wrapping/unwrap", { token });
      expect(opened.body.data).toEqual(value);
      expect((await service().call("POST", "/v1/sys/wrapping/unwrap", { token }))?.status).toBe(400);
    }
    const missing = await sallyport(["kv", "share", "secret/none"]);
    expect([missing.code, missing.err]).toEqual([1, "sallyport kv share: secret/none: no such secret\n"]);
  });

  it("edits in an editor, writes nothing without a change, and leaves no file", async () => {
    await ok(["kv", "put", "secret/edited", "-"], '{"a":"1","f":1.50}');
    const left = () => readdirSync("/dev/shm").filter((name) => name.startsWith("sallyport-edit-"));
    const edit = (editor: string) => sallyport(["kv", "edit", "secret/edited"], "", { ...env(), EDITOR: editor });
    expect((await edit("true")).err).toBe("Nothing was changed.\n");
    expect((await edit(`sed -i 's/^a:.*/a: "9"/'`)).out).toBe("secret/edited: version 2\n");
    expect(await ok(["kv", "get", "secret/edited", "--field", "f"])).toBe("1.50");
    const script = file("editor.sh", 'stat -c %a "$1" >&2; printf "a: |\\n  two\\n  lines\\n" > "$1"\n');
    const ended = await edit(`sh ${script}`);
    expect([ended.code, ended.out, ended.err]).toEqual([0, "secret/edited: version 3\n", "600\n"]);
    expect(await ok(["kv", "get", "secret/edited", "--field", "a"])).toBe("two\nlines\n");
    expect((await edit("false")).err).toContain("nothing was written");
    const broken = await edit(`sh ${file("broken.sh", 'echo "hunter2: [" > "$1"\n')}`);
    expect([broken.code, broken.err]).toEqual([2, expect.stringContaining("must be a map in YAML, see line")]);
    expect(broken.err).not.toContain("hunter2");
    expect(left()).toEqual([]);
    const slow = `sh ${file("slow.sh", 'echo "$1"; exec sleep 20\n')}`;
    for (const [signal, code] of [
      ["SIGTERM", 143],
      ["SIGHUP", 129],
      ["SIGINT", 130],
    ] as const) {
      const started = startCli(["kv", "edit", "secret/edited"], { ...env(), EDITOR: slow });
      const path = String(await once(started.child.stdout as Readable, "data")).trim();
      expect(existsSync(path), signal).toBe(true);
      started.child.kill(signal);
      await once(started.child, "exit");
      expect([existsSync(dirname(path)), started.child.exitCode], signal).toEqual([false, code]);
    }
  });

  it("says in one sentence what to do, and never shows a value", async () => {
    for (const name of ["known", "folder/x"]) await ok(["kv", "put", `secret/${name}`, "word=hunter2"]);
    const rows: readonly (readonly [args: readonly string[], code: number, text: string])[] = [
      [["kv", "get", "nowhere/x"], 1, "`sallyport kv list` shows them"],
      [["kv", "get", "secret/none"], 1, "secret/none: no such secret\n"],
      [["kv", "get", "secret/folder"], 1, "no such secret, but a folder: `sallyport kv list secret/folder/` shows it"],
      [["kv", "history", "secret/folder"], 1, "no such secret, but a folder"],
      [["kv", "rm", "secret/none"], 1, "secret/none: no such secret\n"],
      [["kv", "rm", "secret/known", "--version", "1", "--version", "9"], 1, "secret/known has no version 9\n"],
      [["kv", "rm", "secret"], 2, "--all removes every secret below it"],
      [["kv", "mv", "secret", "plain/"], 2, "FROM: is a mount: end it with a slash"],
      [["kv", "get", "secret/known", "--field", "other"], 1, "it has word"],
      [["kv", "get", "secret/"], 1, "is a folder"],
      [["kv", "get", "secret/known", "--version", "x"], 2, "--version: must be from 1"],
      [["kv", "put", "secret/known", "=hunter2"], 2, "PAIR: must be key=value"],
      [["kv", "put", "secret/known", "word"], 2, "no terminal to ask"],
      [["kv", "put", "secret/known", "word=@/nowhere"], 2, "word: ENOENT"],
      [["kv", "put", "secret/known", `@${file("no.json", "hunter2")}`], 2, "must be a JSON object"],
      [["kv", "put", "secret/known", "word=hunter2", "--cas", "7"], 1, "secret/known: is at version 1, not 7\n"],
      [["kv", "put", "secret/none", "word=hunter2", "--cas", "7"], 1, "secret/none: is not at version 7"],
      [["kv", "patch", "secret/none", "word=hunter2"], 1, "secret/none: no such secret\n"],
      [["kv", "cp", "secret/folder", "secret/other"], 1, "no such secret, but a folder: `sallyport kv list"],
      [["kv", "mv", "secret/none", "secret/other"], 1, "secret/none: no such secret\n"],
      [["kv", "put", "plain/x", "word=hunter2", "--cas", "0"], 2, "KV version 1 has no versions"],
      [["kv", "history", "plain/x"], 1, "keeps no history"],
      [["kv", "rm", "secret/"], 2, "--all removes every secret below it"],
      [["kv", "cp", "secret/life/", "secret/other"], 2, "TO: must end with a slash, because FROM is a folder"],
      [["kv", "cp", "secret/known", "secret/"], 2, "TO: is FROM"],
      [["kv", "mv", "secret/known", "secret//known"], 2, "TO: is FROM"],
      [["kv", "mv", "secret//folder/", "/secret/folder//"], 2, "TO: is FROM"],
      [["kv", "mv", "secret/life/", "secret/life/x/"], 2, "TO: is below FROM"],
      [["kv", "patch", "secret/known"], 2, "PAIR is missing"],
      [["env", "push", "secret/known", file("bad.yaml", "- hunter2\n")], 2, "must be a map in YAML"],
      [
        ["env", "push", "secret/known", file("twice.env", "W=hunter2\nN='\nW=1'\nW=hunter3\n")],
        2,
        "twice.env: line 4 has a key of an earlier line",
      ],
      [["env", "push", "secret/known", file("no.env", "W=1\nhunter2\n")], 2, "no.env: line 2 must be KEY=VALUE"],
      [["env", "push", "secret/known", file("open.env", 'W="hunter2\n')], 2, "open.env: line 1 must have one pair"],
      [["run", "--path", "secret/known", "--on-change", "HUP", "--", "true"], 2, "a signal needs --files"],
      [["run", "--", "true"], 2, "--path is missing"],
      // A longer timer fires at once.
      [["run", "--path", "secret/known", "--grace", "600h", "--", "true"], 2, "--grace: must be at most 576h"],
      [["run", "--path", "secret/known", "--poll", "999999m", "--", "true"], 2, "--poll: must be at most 576h"],
      [["sync", "set", "secret/known", "in-mem/none"], 1, "in-mem/none: no such destination"],
      [["sync", "status", "secret/none"], 1, "secret/none: no such secret\n"],
      [["sync", "set", "secret/none", "cloud-a-sm/known"], 1, "secret/none: no such secret\n"],
      [["sync", "plan", "secret/folder", "cloud-a-sm/known"], 1, "no such secret, but a folder"],
      [["sync", "set", "secret/life/", "in-mem/none"], 1, "in-mem/none: no such destination"],
      [["sync", "remove", "secret/known", "in-mem/none"], 1, "in-mem/none: no such destination"],
      [["sync", "set", "plain/", "in-mem/none"], 2, "PATH: rules need KV version 2"],
      [["creds", "nowhere/x"], 1, "no mount that the token may use has this path"],
      [["sync", "set", "secret/known", "nowhere"], 2, "DESTINATION: must be TYPE/NAME"],
      [["login", "--method", "magic"], 2, "--method: must be one of token, userpass, approle, oidc"],
      [["completion", "csh"], 2, "SHELL: must be one of bash, zsh, fish"],
    ];
    const { stores } = providers.current as Providers;
    await service().must("POST", "/v1/sys/sync/destinations/cloud-a-sm/known", { ...stores["cloud-a-sm"]?.body });
    for (const [args, code, text] of rows) {
      const ended = await sallyport(args);
      expect(ended.out, args.join(" ")).toBe("");
      expect([ended.code, ended.err], args.join(" ")).toEqual([code, expect.stringContaining(text)]);
      expect(ended.err.split("\n")[0], args.join(" ")).toMatch(/^sallyport \w+( \w+)?: /);
      expect(ended.err + ended.out, args.join(" ")).not.toContain("hunter2");
    }
    const denied = await sallyport(["kv", "get", "secret/known"], "", env("unknown"));
    expect([denied.code, denied.err.includes("hunter2")]).toEqual([1, false]);
  });

  it("needs no more rights than the paths of the secret", async () => {
    const policy =
      'path "secret/data/own/*" { capabilities = ["create", "read", "update"] } path "secret/data/seen" { capabilities = ["read"] }';
    await service().must("PUT", "/v1/sys/policies/acl/own", { policy });
    const { auth } = (await service().must("POST", "/v1/auth/token/create", { policies: ["own"] })).body;
    const as = (...args: string[]) => sallyport(args, "", env(auth.client_token));
    expect((await as("kv", "put", "secret/own/a", "x=1", "y=1")).code).toBe(0);
    // The index follows the write, and finds what the token may read without listing its folder.
    await expect.poll(async () => (await as("kv", "find", "own/a")).out).toBe("secret/own/a\n");
    expect((await as("kv", "find", "known")).out).toBe("");
    // Without the capability `patch`.
    expect((await as("kv", "patch", "secret/own/a", "x=2")).out).toBe("secret/own/a: version 2\n");
    expect((await as("kv", "get", "secret/own/a")).out).toBe("x  2\ny  1\n");
    const unchanged = await as("env", "push", "secret/seen", file("seen.env", "A=1\n"));
    expect([unchanged.code, unchanged.out, unchanged.err]).toEqual([1, "", expect.not.stringContaining("+ A")]);
    const refused = await as("kv", "get", "secret/known");
    expect([refused.code, refused.err]).toEqual([
      1,
      expect.stringMatching(/403.*: the token lacks this right \(read\)\n$/),
    ]);
    for (const args of [
      ["kv", "list"],
      ["kv", "get", "secret/known"],
      ["creds", "azure/r"],
      ["sync", "status"],
    ]) {
      const ended = await sallyport(args, "", env("hvs.ended"));
      expect([ended.code, ended.err]).toEqual([
        1,
        expect.stringMatching(/403.*: log in again with `sallyport login`\n$/),
      ]);
    }
  });

  it("works in the namespace of an option, of the environment and of a login", async () => {
    await service().must("PUT", "/v1/sys/namespaces/team", {});
    await service().must("PUT", "/v1/team/sys/mounts/secret", { type: "kv", options: { version: "2" } });
    await ok(["kv", "put", "secret/where", "ns=root"]);
    await ok(["kv", "put", "secret/where", "ns=team", "--namespace", "team"]);
    expect(await ok(["kv", "get", "secret/where", "--field", "ns"])).toBe("root");
    const there = { ...env(), SALLYPORT_NAMESPACE: "team/" };
    expect((await sallyport(["kv", "get", "secret/where", "--field", "ns"], "", there)).out).toBe("team");
    await sallyport(["login", "--address", service().base, "--namespace", "team"], "root\n", { HOME: home.current });
    const kept = await sallyport(["kv", "get", "secret/where", "--field", "ns"], "", { HOME: home.current });
    expect([kept.out, kept.err]).toEqual(["team", ""]);
  });
});

describe("env", () => {
  it("writes .env, JSON and YAML that read back as they were", async () => {
    const values = {
      PLAIN: "a-b_c/d:1",
      SPACES: "two words",
      LINES: "a\nb\n",
      QUOTE: "it's",
      HASH: "a#b",
      DOLLAR: "$HOME",
    };
    await ok(["kv", "put", "secret/env", "-"], JSON.stringify(values));
    for (const format of ["dotenv", "json", "yaml"]) {
      const out = join(home.current, `values.${format}`);
      await ok(["env", "pull", "secret/env", "--format", format, "--output", out]);
      expect(statSync(out).mode & 0o777).toBe(0o600);
      expect(await ok(["env", "push", "secret/env", out, "--format", format, "--prune"]), format).toContain(
        "nothing to change",
      );
    }
    const sourced = await sallyport(["run", "--path", "secret/env", "--", "sh", "-c", 'printf %s "$DOLLAR$LINES"']);
    expect(sourced.out).toBe("$HOMEa\nb\n");
    const hard = await sallyport(["kv", "put", "secret/hard", "K=-"], `'"$`);
    expect(hard.code).toBe(0);
    const refused = await sallyport(["env", "pull", "secret/hard"]);
    expect([refused.code, refused.out, refused.err]).toEqual([
      1,
      "",
      expect.stringContaining("use --format json or yaml"),
    ]);
  });

  it("says what a push changes, and keeps other keys without --prune", async () => {
    // A line in quotes is none of the file's.
    const path = file("app.env", "# comment\nA=1\nB='x y\nA=2'\n");
    expect((await sallyport(["env", "push", "secret/push", path])).err).toBe("+ A\n+ B\n");
    const changed = file("app.env", "A=2\nC=3\n");
    const plan = await sallyport(["env", "push", "secret/push", changed, "--dry-run"]);
    expect([plan.out, plan.err]).toEqual(["secret/push: nothing was written (--dry-run)\n", "~ A\n+ C\n"]);
    await ok(["env", "push", "secret/push", changed]);
    expect(JSON.parse(await ok(["env", "pull", "secret/push", "--json"]))).toEqual({ A: "2", B: "x y\nA=2", C: "3" });
    expect((await sallyport(["env", "push", "secret/push", changed, "--prune"])).err).toBe("- B\n");
  });
});

describe("run", () => {
  /** A program that shows its values, and again after a signal. */
  const program = (): string =>
    file(
      "program.sh",
      `trap 'echo "ends $WORD"; exit 0' TERM; trap 'echo "hup $(cat "$1")"' HUP; echo "start $WORD"
while :; do sleep 0.05; done
`,
    );

  const outputOf = (started: ReturnType<typeof startCli>) => {
    const output = { text: "" };
    started.child.stdout?.on("data", (bytes) => (output.text += bytes));
    return output;
  };

  it.each([
    ["root", [], "by event notifications"],
    ["limited", ["--poll", "1s"], "by time, for a token without notifications"],
    ["half", ["--poll", "1s"], "by time, for a token that sees no event of the secret"],
  ])("restarts the program of a %s token on a change %j", async (who, options) => {
    await ok(["kv", "put", "secret/run/a", "WORD=one"]);
    const events = who === "half" ? 'path "sys/events/subscribe/*" { capabilities = ["read"] }' : "";
    const policy = `path "secret/data/run/*" { capabilities = ["read"] } ${events}`;
    await service().must("PUT", "/v1/sys/policies/acl/run", { policy });
    const { auth } = (await service().must("POST", "/v1/auth/token/create", { policies: ["run"] })).body;
    const token = who === "root" ? "root" : auth.client_token;
    const args = ["run", "--path", "secret/run/a", ...options, "--", "sh", program()];
    const started = startCli(args, env(token));
    const output = outputOf(started);
    await expect.poll(() => output.text).toBe("start one\n");
    await ok(["kv", "put", "secret/run/a", "WORD=two"]);
    await expect.poll(() => output.text).toBe("start one\nends one\nstart two\n");
    started.child.kill("SIGTERM");
    const ended = await started.ended;
    expect([ended.code, ended.out]).toEqual([0, "start one\nends one\nstart two\nends two\n"]);
    expect(ended.err.includes("no event notifications")).toBe(who !== "root");
    expect(ended.err).not.toMatch(/one|two/);
  });

  it("keeps files of mode 0600 up to date, signals the program, and removes them", async () => {
    await ok(["kv", "put", "secret/run/b", "word=one"]);
    const files = join(home.current, "files");
    const words = ["run", "--path", "secret/run/b", "--files", files, "--on-change", "HUP", "--", "sh", program()];
    const started = startCli([...words, join(files, "word")], env());
    const output = outputOf(started);
    await expect.poll(() => output.text).toBe("start \n");
    expect([statSync(files).mode & 0o777, statSync(join(files, "word")).mode & 0o777]).toEqual([0o700, 0o600]);
    await ok(["kv", "put", "secret/run/b", "word=two"]);
    await expect.poll(() => output.text).toBe("start \nhup two\n");
    started.child.kill("SIGTERM");
    expect((await started.ended).code).toBe(0);
    expect(() => statSync(files)).toThrow("ENOENT");
  });

  it("leaves the program alone with --on-change none, and ends a stubborn one after --grace", async () => {
    await ok(["kv", "put", "secret/run/g", "WORD=one"]);
    const stubborn = file("stubborn.sh", "trap '' TERM; echo \"start $WORD\"; while :; do sleep 0.05; done\n");
    const start = (...options: string[]) => {
      const started = startCli(["run", "--path", "secret/run/g", ...options, "--", "sh", stubborn], env());
      return { started, output: outputOf(started) };
    };
    const left = start("--on-change", "none");
    const ended = start("--grace", "1s");
    for (const { output } of [left, ended]) await expect.poll(() => output.text).toBe("start one\n");
    await ok(["kv", "put", "secret/run/g", "WORD=two"]);
    await expect.poll(() => ended.output.text).toBe("start one\nstart two\n");
    expect(left.output.text).toBe("start one\n");
    for (const { started } of [left, ended]) {
      started.child.kill("SIGKILL");
      spawnSync("pkill", ["-9", "-f", stubborn]);
      await started.ended;
    }
  });

  it("ends the program with npx, whose shell passes no signal on", async () => {
    await ok(["kv", "put", "secret/run/e", "WORD=one"]);
    const words = [process.execPath, programOf("packages/cli/src/main.ts"), "run", "--path", "secret/run/e", "--"];
    const shell = spawn("sh", ["-c", '"$0" "$@"; exit $?', ...words, "sh", program()], {
      env: { ...PROGRAM_ENV, ...env(), npm_lifecycle_event: "npx" },
    });
    let output = "";
    shell.stdout.on("data", (bytes) => (output += bytes));
    await expect.poll(() => output).toBe("start one\n");
    shell.kill("SIGTERM");
    await expect.poll(() => output).toBe("start one\nends one\n");
  });

  it("does not start the program again that is told to end during its restart", async () => {
    await ok(["kv", "put", "secret/run/f", "WORD=one"]);
    const slow = file("slow.sh", "trap 'sleep 1; exit 3' TERM; echo start; while :; do sleep 0.05; done\n");
    const started = startCli(["run", "--path", "secret/run/f", "--", "sh", slow], env());
    const output = outputOf(started);
    const errors = { text: "" };
    started.child.stderr?.on("data", (bytes) => (errors.text += bytes));
    await expect.poll(() => output.text).toBe("start\n");
    await ok(["kv", "put", "secret/run/f", "WORD=two"]);
    await expect.poll(() => errors.text).toContain("restarting the program");
    started.child.kill("SIGTERM");
    const ended = await started.ended;
    expect([ended.code, ended.out]).toEqual([3, "start\n"]);
  });

  it("ends with the program's code, and does not start it without its secrets", async () => {
    await ok(["kv", "put", "secret/run/c", "db-password=p", "other=o"]);
    await ok(["kv", "put", "secret/run/zero", "-"], '{"A":"hunter2\\u0000"}');
    await ok(["kv", "put", "secret/run/long", "-"], JSON.stringify({ A: "hunter2".repeat(20_000) }));
    const rows: readonly (readonly [args: readonly string[], code: number, out: string])[] = [
      [["--path", "PW=secret/run/c#db-password", "--", "sh", "-c", 'echo "$PW $other"; exit 5'], 5, "p \n"],
      [["--path", "secret/run/c", "--upper", "--", "sh", "-c", 'echo "$DB_PASSWORD$OTHER"'], 0, "po\n"],
      [["--path", "secret/run/c", "--upper", "--", "sh", "-c", "kill -9 $$"], 137, ""],
      [["--path", "secret/run/c", "--upper", "--", "no-such-program"], 127, ""],
      [["--path", "secret/run/none", "--", "echo", "started"], 1, ""],
      [["--path", "secret/run/c#none", "--", "echo", "started"], 1, ""],
      [["--path", "secret/run/zero", "--", "echo", "started"], 1, ""],
      [["--path", "secret/run/long", "--", "echo", "started"], 1, ""],
    ];
    for (const [args, code, out] of rows) {
      const ended = await sallyport(["run", ...args]);
      expect([ended.code, ended.out], args.join(" ")).toEqual([code, out]);
      expect(ended.err).not.toContain("hunter2");
    }
  });

  it("goes on with the new values when its files could not be written for a time", async () => {
    await ok(["kv", "put", "secret/run/h", "word=one"]);
    const files = join(home.current, "later");
    const words = ["run", "--path", "secret/run/h", "--files", files, "--on-change", "HUP", "--", "sh", program()];
    const started = startCli([...words, join(files, "word")], env());
    const output = outputOf(started);
    const errors = { text: "" };
    started.child.stderr?.on("data", (bytes) => (errors.text += bytes));
    await expect.poll(() => output.text).toBe("start \n");
    renameSync(files, `${files}-away`);
    await ok(["kv", "put", "secret/run/h", "word=two"]);
    await expect.poll(() => errors.text).toContain("ENOENT");
    renameSync(`${files}-away`, files);
    await expect.poll(() => output.text).toBe("start \nhup two\n");
    started.child.kill("SIGTERM");
    await started.ended;
  });

  it("keeps the program and its values while the secret cannot be read", async () => {
    await ok(["kv", "put", "secret/run/d", "WORD=one"]);
    const started = startCli(["run", "--path", "secret/run/d", "--", "sh", program()], env());
    const output = outputOf(started);
    await expect.poll(() => output.text).toBe("start one\n");
    const errors = { text: "" };
    started.child.stderr?.on("data", (bytes) => (errors.text += bytes));
    await ok(["kv", "rm", "secret/run/d"]);
    await expect.poll(() => errors.text).toContain("the program keeps its values");
    await ok(["kv", "undelete", "secret/run/d"]);
    await ok(["kv", "put", "secret/run/d", "WORD=two"]);
    await expect.poll(() => output.text).toBe("start one\nends one\nstart two\n");
    started.child.kill("SIGTERM");
    await started.ended;
  });
});

it("creds issues, renews and ends credentials, also for a program", async () => {
  const { directory } = providers.current as Providers;
  await service().must("POST", "/v1/sys/mounts/azure", { type: "cloud-b" });
  await service().must("POST", "/v1/azure/config", directory.config);
  const role = { cloud_roles: [{ role_name: "Reader", scope: directory.scope }], permanently_delete: true };
  await service().must("POST", "/v1/azure/roles/reader", role);
  const issued = JSON.parse(await ok(["creds", "azure/reader", "--json"]));
  expect(directory.accepts(issued.data.client_id, issued.data.client_secret)).toBe(true);
  expect(await ok(["lease", "renew", issued.lease_id, "--increment", "1h"])).toContain("for 3600 s");
  expect(await ok(["lease", "revoke", issued.lease_id])).toBe(`${issued.lease_id}: ended\n`);
  expect(directory.accepts(issued.data.client_id, issued.data.client_secret)).toBe(false);
  for (const lease of [issued.lease_id, "azure/creds/reader/never", "nowhere"])
    for (const verb of ["revoke", "renew"]) {
      const unknown = await sallyport(["lease", verb, lease]);
      const why = `sallyport lease ${verb}: ${lease}: no such lease, or it has ended already\n`;
      expect([unknown.code, unknown.out, unknown.err]).toEqual([1, "", why]);
    }
  const rules = 'path "sys/leases/revoke" { capabilities = ["update"] }';
  await service().must("PUT", "/v1/sys/policies/acl/revoker", { policy: rules });
  const { body } = await service().must("POST", "/v1/auth/token/create", {
    policies: ["revoker"],
    no_default_policy: true,
  });
  const blind = await sallyport(["lease", "revoke", "nowhere"], "", env(body.auth.client_token));
  expect([blind.code, blind.out]).toEqual([0, expect.stringContaining("ended, if there was such a lease")]);
  expect(await ok(["creds", "azure/creds/reader", "--format", "env"])).toMatch(
    /^export AZURE_CLIENT_ID='[^']+'\nexport AZURE_CLIENT_SECRET='[^']+'\n$/,
  );
  const print = 'echo "$AZURE_CLIENT_ID $AZURE_CLIENT_SECRET"';
  const shown = await ok(["run", "--path", "azure/creds/reader", "--", "sh", "-c", print]);
  const [id = "", secret = ""] = shown.trim().split(" ");
  expect(secret.length).toBeGreaterThan(20);
  await expect.poll(() => directory.accepts(id, secret)).toBe(false);
  // Credentials that were issued before another path failed.
  const failed = await sallyport(["run", "--path", "azure/creds/reader", "--path", "secret/none", "--", "true"]);
  expect(failed.code).toBe(1);
  const leases = () => service().call("GET", "/v1/sys/leases/lookup/azure/creds/reader?list=true");
  await expect.poll(leases).toMatchObject({ status: 200, body: { data: { keys: [expect.any(String)] } } });
  const refused = await sallyport(["creds", "secret/known"]);
  expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("`sallyport kv get` reads it")]);
});

it("run renews the lease of credentials, and issues others when it cannot be renewed any more", async () => {
  const { directory } = providers.current as Providers;
  await service().must("POST", "/v1/sys/mounts/short", { type: "cloud-b" });
  await service().must("POST", "/v1/short/config", directory.config);
  const role = { cloud_roles: [{ role_name: "Reader", scope: directory.scope }], permanently_delete: true };
  await service().must("POST", "/v1/short/roles/reader", { ...role, ttl: "20s", max_ttl: "40s" });
  const print = 'echo "$AZURE_CLIENT_ID $AZURE_CLIENT_SECRET"; while :; do sleep 0.1; done';
  const started = startCli(["run", "--path", "short/reader", "--", "sh", "-c", print], env());
  const output = { text: "" };
  started.child.stdout?.on("data", (bytes) => (output.text += bytes));
  await expect.poll(() => output.text).toMatch(/\n$/);
  const [id = "", secret = ""] = output.text.trim().split(" ");
  const issuedAt = Date.now();
  const listed = await service().call("GET", "/v1/sys/leases/lookup/short/creds/reader?list=true");
  const lease_id = `short/creds/reader/${listed?.body.data.keys[0]}`;
  const lease = async () => (await service().call("PUT", "/v1/sys/leases/lookup", { lease_id }))?.body.data;
  await expect.poll(async () => (await lease()).last_renewal).toEqual(expect.any(String));
  expect(output.text.split("\n")).toHaveLength(2);
  expect(directory.accepts(id, secret)).toBe(true);
  await expect.poll(() => output.text.split("\n").length, { timeout: 90_000 }).toBe(3);
  expect(Date.now() - issuedAt).toBeGreaterThan(17_000);
  const [, second = ""] = output.text.split("\n");
  expect(second).not.toContain(id);
  started.child.kill("SIGTERM");
  await started.ended;
  const [lastId = "", lastSecret = ""] = second.split(" ");
  await expect.poll(() => directory.accepts(lastId, lastSecret)).toBe(false);
}, 300_000);

it("sync plans, sets, shows and removes copies, and ends with 1 for one that fails", async () => {
  const { stores } = providers.current as Providers;
  await ok(["kv", "put", "secret/synced", "word=w"]);
  const at = "/v1/sys/sync/destinations";
  await service().must("POST", `${at}/cloud-a-sm/good`, { ...stores["cloud-a-sm"]?.body });
  await service().must("POST", `${at}/cloud-a-sm/bad`, {
    ...stores["cloud-a-sm"]?.body,
    secret_access_key: "x".repeat(40),
    secret_name_template: "bad/{{ .SecretPath }}",
  });
  expect(await ok(["sync", "plan", "secret/synced", "cloud-a-sm/good"])).toMatch(/^create \S+synced\n$/);
  expect(await ok(["sync", "status", "secret/synced", "--json"])).toBe("[]\n");
  expect(await ok(["sync", "set", "secret/synced", "cloud-a-sm/good", "--wait", "30s"])).toContain(
    "secret/synced SYNCED",
  );
  const failed = await sallyport(["sync", "set", "secret/synced", "cloud-a-sm/bad", "--wait", "30s"]);
  expect([failed.code, failed.out], failed.err).toEqual([1, expect.stringMatching(/secret\/synced \w+_ERROR \S+ \w+/)]);
  const status = await sallyport(["sync", "status", "secret/synced"]);
  expect([status.code, status.out]).toEqual([1, expect.stringMatching(/^aws-sm\/good .*SYNCED +1$/m)]);
  const objects = await sallyport(["sync", "status", "--destination", "cloud-a-sm/good"]);
  expect([objects.code, objects.out]).toEqual([0, expect.stringMatching(/^secret\/synced .* SYNCED +1$/m)]);
  expect((await sallyport(["sync", "status"])).out).toMatch(/^aws-sm\/good +1 SYNCED$/m);
  expect((await sallyport(["sync", "status", "--destination", "cloud-a-sm/none"])).err).toContain(
    "no such destination",
  );
  // A folder by a rule, which covers a later secret and leaves the single association alone.
  await ok(["kv", "put", "secret/many/a", "k=1"]);
  const folder = ["secret/many/", "cloud-a-sm/good"];
  expect(await ok(["sync", "plan", ...folder])).toMatch(/^create \S+many\/a\n$/);
  expect(await ok(["sync", "set", ...folder, "--wait", "30s"])).toBe("secret/many/ active: 1 secret, 1 SYNCED\n");
  await ok(["kv", "put", "secret/many/b", "k=2"]);
  await expect
    .poll(async () => (await sallyport(["sync", "set", ...folder])).out)
    .toBe("secret/many/ active: 2 secrets, 2 SYNCED\n");
  expect(await ok(["sync", "plan", ...folder])).toBe("");
  // The name of the rule is that of another folder, too.
  const other = await sallyport(["sync", "set", "secret/MANY/", "cloud-a-sm/good"]);
  expect([other.code, other.err]).toEqual([1, expect.stringContaining("is for secret/many")]);
  expect(await ok(["sync", "remove", ...folder])).toBe("secret/many/: no longer copied to cloud-a-sm/good\n");
  await ok(["sync", "remove", "secret/synced", "cloud-a-sm/bad"]);
  for (const [secret, at] of [
    ["secret/many/a", "cloud-a-sm/bad"],
    ["secret/none", "aws-sm/good"],
  ] as const) {
    const missing = await sallyport(["sync", "remove", secret, at]);
    expect([missing.code, missing.err]).toEqual([1, expect.stringContaining(`${secret}: is not copied to ${at}`)]);
  }
  await ok(["sync", "remove", "secret/synced", "cloud-a-sm/good"]);
  await expect.poll(() => stores["cloud-a-sm"]?.objects().size).toBe(0);
});

it("events tail resumes after the kept index, through a restart of the service", async () => {
  const state = join(home.current, "position");
  const tail = (count: number) =>
    startCli(["events", "tail", "--topic", "Secret", "--state", state, "--count", String(count)], env());
  await ok(["kv", "put", "secret/tail/0", "a=1"]);
  const { index } = await service().must("GET", "/v1/secret/data/tail/0");
  expect(Number.isNaN(index)).toBe(false);
  const first = startCli(
    ["events", "tail", "--topic", "Secret:secret/tail/0", "--index", "0", "--state", state, "--count", "1"],
    env(),
  );
  expect((await first.ended).out).toMatch(/^\d+ Secret SecretWritten secret\/tail\/0\n$/);
  await ok(["kv", "put", "secret/tail/1", "a=1"]);
  const second = tail(2);
  const output = { text: "" };
  second.child.stdout?.on("data", (bytes) => (output.text += bytes));
  await expect.poll(() => output.text).toMatch(/^\d+ Secret SecretWritten secret\/tail\/1\n$/);
  await service().stop();
  await service().start();
  // Its address is another one after a restart.
  second.child.kill("SIGTERM");
  expect((await second.ended).code).toBe(0);
  await ok(["kv", "put", "secret/tail/2", "a=1"]);
  expect((await tail(1).ended).out).toMatch(/^\d+ Secret SecretWritten secret\/tail\/2\n$/);
  for (const [topic, why] of [
    ["Nope", /: --topic: no topic "Nope": did you mean Node\?$/m],
    ["Others", /: --topic: no topic "Others": the topics are Job, .*, Secret, Sync, Lease, Engine$/m],
    ["secret:a", /: --topic: no topic "secret": did you mean Secret\?$/m],
    ["Volume", /: did you mean CSIVolume\?$/m],
    ["Job:a:b", /: --topic: must be TOPIC or TOPIC:KEY$/m],
  ] as const) {
    const unknown = await sallyport(["events", "tail", "--topic", "Node", "--topic", topic]);
    expect([unknown.code, unknown.err]).toEqual([2, expect.stringMatching(why)]);
  }
  const denied = await sallyport(["events", "tail", "--topic", "Secret"], "", env("unknown"));
  expect([denied.code, denied.err]).toEqual([
    1,
    expect.stringMatching(/403.*: log in again with `sallyport login`\n$/),
  ]);
});

it("events tail says that a topic is not published, and that nothing answers", async () => {
  const said = async (topic: string, { SALLYPORT_ADDR = service().base, ...rest } = env()) => {
    const tail = startCli(["events", "tail", "--topic", topic], { ...rest, SALLYPORT_ADDR });
    const errors = { text: "" };
    tail.child.stderr?.on("data", (bytes) => (errors.text += bytes));
    await expect.poll(() => errors.text).toMatch(/\n$/);
    tail.child.kill("SIGTERM");
    return (await tail.ended).err;
  };
  expect(await said("Sync")).toBe("the service publishes no events of Sync: its SERVICE_EVENTS does not have them\n");
  const away = { ...env(), SALLYPORT_ADDR: `http://127.0.0.1:${await freePort()}` };
  expect(await said("Secret", away)).toMatch(/^http:\S+: no answer: connect ECONNREFUSED \S+: tried again until .*\n$/);
});

describe("login", () => {
  const without = (): Readonly<Record<string, string>> => ({ HOME: home.current });
  const kept = () => join(home.current, ".config/sallyport/logins.json");

  it("keeps a token in a file of mode 0600, for its address only, until logout", async () => {
    const wrong = await sallyport(["login", "--address", service().base], "unknown\n", without());
    expect([wrong.code, wrong.err]).toEqual([1, expect.stringContaining("the token is unknown or has ended")]);
    expect(() => statSync(kept())).toThrow("ENOENT");
    const done = await sallyport(["login", "--address", service().base], "root\n", without());
    expect([done.code, done.err]).toEqual([0, ""]);
    expect([statSync(kept()).mode & 0o777, statSync(join(kept(), "..")).mode & 0o777]).toEqual([0o600, 0o700]);
    expect((await sallyport(["kv", "list"], "", without())).out).toContain("secret/\n");
    const elsewhere = await sallyport(["kv", "list"], "", { ...without(), SALLYPORT_ADDR: "http://127.0.0.1:1" });
    expect([elsewhere.code, elsewhere.err]).toEqual([2, expect.stringContaining("SALLYPORT_TOKEN: must be set")]);
    expect((await sallyport(["logout"], "", without())).code).toBe(0);
    expect(readFileSync(kept(), "utf8")).not.toContain("root");
    expect((await sallyport(["kv", "list"], "", without())).code).toBe(2);
    expect(await sallyport(["logout"], "", without())).toEqual({ code: 0, out: "There is no login.\n", err: "" });
    const nowhere = await sallyport(["login"], "root\n", without());
    expect([nowhere.code, nowhere.err]).toEqual([2, expect.stringContaining("`sallyport login --address URL`")]);
    // The token itself goes on.
    expect((await service().must("GET", "/v1/auth/token/lookup-self")).status).toBe(200);
  });

  it("works with a password and an AppRole, and logout --revoke ends the token", async () => {
    await service().must("POST", "/v1/sys/auth/people", { type: "userpass" });
    await service().must("POST", "/v1/auth/people/users/ann", { password: "correct horse", token_policies: "default" });
    await service().must("POST", "/v1/sys/auth/approle", { type: "approle" });
    await service().must("POST", "/v1/auth/approle/role/app", { token_policies: "default" });
    const { role_id } = (await service().must("GET", "/v1/auth/approle/role/app/role-id")).body.data;
    const { secret_id } = (await service().must("POST", "/v1/auth/approle/role/app/secret-id")).body.data;
    const rows: readonly (readonly [args: readonly string[], input: string, name: string])[] = [
      [["--method", "userpass", "--mount", "people", "--username", "ann"], "correct horse\n", "people-ann"],
      [["--method", "approle", "--role-id", role_id], `${secret_id}\n`, "approle"],
    ];
    for (const [args, input, name] of rows) {
      const { code, out, err } = await sallyport(
        ["login", "--address", service().base, ...args, "--json"],
        input,
        without(),
      );
      expect([code, err], args.join(" ")).toEqual([0, ""]);
      expect(JSON.parse(out), args.join(" ")).toMatchObject({ display_name: name });
      const { logins } = JSON.parse(readFileSync(kept(), "utf8"));
      const { token } = logins[`${service().base}/`];
      expect(out).not.toContain(token);
      expect((await service().call("GET", "/v1/auth/token/lookup-self", undefined, token))?.status).toBe(200);
      expect((await sallyport(["logout", "--revoke"], "", without())).code).toBe(0);
      expect((await service().call("GET", "/v1/auth/token/lookup-self", undefined, token))?.status).toBe(403);
    }
    const logout = async (...options: string[]) => {
      const { code, out, err } = await sallyport(
        ["logout", "--address", service().base, "--revoke", ...options],
        "",
        without(),
      );
      expect([code, err]).toEqual([0, ""]);
      return out;
    };
    expect(await logout()).toBe(`There was no login to ${service().base}/.\n`);
    expect(JSON.parse(await logout("--json"))).toEqual({ address: `${service().base}/`, revoked: false });
    const { auth } = (await service().must("POST", "/v1/auth/token/create", { policies: ["default"] })).body;
    await sallyport(["login", "--address", service().base], `${auth.client_token}\n`, without());
    await service().call("POST", "/v1/auth/token/revoke-self", undefined, auth.client_token);
    expect(await logout()).toContain("Its token was not revoked");
    const wrong = [
      "login",
      "--address",
      service().base,
      "--method",
      "userpass",
      "--mount",
      "people",
      "--username",
      "ann",
    ];
    const refused = await sallyport(wrong, "hunter2\n", without());
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("invalid username or password")]);
    expect(refused.err).not.toContain("hunter2");
  });

  it("works in the browser, whose way back needs the state of this login", async () => {
    const port = 8251;
    const back = `http://localhost:${port}/oidc/callback`;
    const provider = await startIdentityProvider(back);
    await service().must("POST", "/v1/sys/auth/oidc", { type: "oidc" });
    await service().must("POST", "/v1/auth/oidc/config", {
      oidc_discovery_url: provider.url,
      ...provider.client,
      default_role: "people",
    });
    const role = { user_claim: "sub", allowed_redirect_uris: [back], token_policies: "default" };
    await service().must("POST", "/v1/auth/oidc/role/people", role);
    const started = startCli(
      ["login", "--address", service().base, "--method", "oidc", "--no-browser", "--port", String(port)],
      without(),
    );
    const errors = { text: "" };
    started.child.stderr?.on("data", (bytes) => (errors.text += bytes));
    await expect.poll(() => errors.text).toMatch(/^Log in at:\nhttp.*\n/);
    expect((await fetch(`${back}?code=stolen`)).status).toBe(400);
    expect((await fetch(`http://localhost:${port}/`)).status).toBe(404);
    const page = await fetch(errors.text.split("\n")[1] ?? "");
    expect(await page.text()).toContain("Back to the terminal");
    const { code, out } = await started.ended;
    expect([code, out]).toEqual([0, expect.stringContaining("as oidc-ann")]);
    await service().must("POST", "/v1/auth/oidc/role/people", {
      ...role,
      allowed_redirect_uris: ["https://elsewhere.test/"],
    });
    const refused = await sallyport(["login", "--address", service().base, "--method", "oidc"], "", without());
    expect([refused.code, refused.err]).toEqual([1, expect.stringContaining("allowed_redirect_uris")]);
    await provider.close();
  });
});

it("completion finds commands, options and names of secrets", async () => {
  await ok(["kv", "put", "secret/complete/name", "a=1"]);
  const rows: readonly (readonly [words: readonly string[], out: readonly string[]])[] = [
    [["sn"], ["snapshot"]],
    [
      ["kv", "r"],
      ["rollback", "rm"],
    ],
    [["kv", "get", "--v"], ["--version"]],
    [["kv", "get", "sec"], ["secret/"]],
    [["kv", "get", "secret/comp"], ["secret/complete/"]],
    [["run", "--path", "secret/complete/n"], ["secret/complete/name"]],
    [["kv", "put", "secret/complete/name", "b"], []],
  ];
  for (const [words, out] of rows) {
    const ended = await sallyport(["complete", "--", ...words]);
    expect([ended.code, ended.out.split("\n").filter(Boolean)], words.join(" ")).toEqual([0, out]);
  }
});

/** Lines around those of the completion in a shell whose command `sallyport` prints two words. */
const COMPLETIONS: readonly (readonly [shell: string, args: readonly string[], before: string, after: string])[] = [
  [
    "bash",
    [],
    "sallyport() { cat WORDS; }",
    `COMP_WORDS=(sallyport kv g); COMP_CWORD=2; _sallyport; printf "%s\\n" "\${COMPREPLY[@]}"`,
  ],
  [
    "zsh",
    ["-f"],
    `sallyport() { cat WORDS }
compdef() { : }
compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -l -- "$@" }`,
    "words=(sallyport kv g); CURRENT=3; _sallyport",
  ],
  ["fish", ["--no-config"], "function sallyport; cat WORDS; end", "complete -C 'sallyport kv g'"],
];

it.each(COMPLETIONS.filter(([shell]) => !spawnSync(shell, ["-c", ":"]).error))(
  "completion offers the words in %s",
  async (shell, args, before, after) => {
    const words = file("words", "get\nget-more\n");
    const lines = await ok(["completion", shell]);
    const script = file(`complete.${shell}`, `${before.replace("WORDS", words)}\n${lines}\n${after}\n`);
    const { stdout, stderr } = spawnSync(shell, [...args, script], { encoding: "utf8" });
    expect([stdout, stderr]).toEqual(["get\nget-more\n", ""]);
  },
);
