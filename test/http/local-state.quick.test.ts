import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { LocalState, noteOnToken, shellWord } from "../../scripts/local-state.ts";

const OLD = Buffer.alloc(32, 1).toString("base64");
const NEW = Buffer.alloc(32, 2).toString("base64");

let dir: string;
beforeEach(() => {
  dir = join(mkdtempSync(join(tmpdir(), "sallyport-state-")), "state");
});
afterEach(() => rmSync(join(dir, ".."), { recursive: true }));

const vars = () => parseEnv(readFileSync(join(dir, ".dev.vars"), "utf8"));

/** Opens the state, writes data as a running service does, and closes it. */
function use(env: Record<string, string> = {}): LocalState {
  const state = new LocalState(dir, env);
  mkdirSync(join(state.dataDir, "v3"), { recursive: true });
  state.noteReady();
  state.close();
  return state;
}

describe("a fresh state", () => {
  it("has a master key and a root token that only its owner can read", () => {
    const state = use();
    expect(Buffer.from(state.masterKey, "base64")).toHaveLength(32);
    expect(state.rootToken).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    expect(vars()).toEqual({ MASTER_KEY: state.masterKey, DEV_ROOT_TOKEN: state.rootToken });
    expect(statSync(join(dir, ".dev.vars")).mode & 0o777).toBe(0o600);
    expect(statSync(dir).mode & 0o777).toBe(0o700);
  });

  it("has a root token that Nomad's command line takes for one, and says so of another", () => {
    expect(noteOnToken(use().rootToken)).toEqual([]);
    for (const token of ["root", "hvs.CAESIJ", "1b9d6bcd-bbfd-4b2d-9b5d"]) {
      expect(noteOnToken(token)).toEqual([expect.stringContaining("It is no UUID")]);
    }
  });

  it("uses both from the environment, and stores the environment's key nowhere", () => {
    const state = use({ MASTER_KEY: OLD, DEV_ROOT_TOKEN: "my.root" });
    expect([state.masterKey, state.rootToken]).toEqual([OLD, "my.root"]);
    expect(vars()).toEqual({ DEV_ROOT_TOKEN: "my.root" });
    expect(readFileSync(join(dir, "about.json"), "utf8")).not.toContain(OLD);
  });

  it("refuses an invalid key or token", () => {
    expect(() => use({ MASTER_KEY: "c2hvcnQ=" })).toThrow("key 1 of MASTER_KEY is not base64 of 32 bytes.");
    expect(() => use({ DEV_ROOT_TOKEN: 'a"b' })).toThrow("DEV_ROOT_TOKEN may hold letters, digits and");
    expect(existsSync(join(dir, "lock"))).toBe(false);
  });
});

describe("a STATE_DIR that existed before", () => {
  it("keeps its own mode and restricts the service's files", () => {
    mkdirSync(join(dir, "state", "v3"), { recursive: true, mode: 0o755 });
    writeFileSync(join(dir, ".dev.vars"), `MASTER_KEY=${OLD}\nDEV_ROOT_TOKEN=t\n`, { mode: 0o644 });
    chmodSync(dir, 0o755);
    const mode = (name: string) => statSync(join(dir, name)).mode & 0o777;
    use();
    expect([mode("."), mode("state"), mode("agent"), mode(".dev.vars")]).toEqual([0o755, 0o700, 0o700, 0o600]);
  });

  it("is refused with one sentence while other users can write to it", () => {
    mkdirSync(dir);
    for (const mode of [0o775, 0o757, 0o777]) {
      chmodSync(dir, mode);
      expect(() => use()).toThrow(`STATE_DIR ${dir} can be written by others: run \`chmod go-w\` on it`);
    }
    chmodSync(dir, 0o755);
    use();
  });

  it("is closed in production when a volume of Kubernetes has opened it to its own group", () => {
    mkdirSync(dir);
    const open = () => new LocalState(dir, { MASTER_KEY: OLD }, "production").close();
    chmodSync(dir, 0o2770);
    open();
    expect(statSync(dir).mode & 0o777).toBe(0o700);
    chmodSync(dir, 0o2777);
    expect(open).toThrow("can be written by others");
  });
});

describe("agents and their volumes", () => {
  const left = () => [existsSync(join(dir, "agent/local-1")), existsSync(join(dir, "volumes/local-1"))];
  const useThem = (state: LocalState) => {
    for (const of of [state.agentsDir, state.volumesDir]) mkdirSync(join(of, "local-1"), { recursive: true });
  };

  it("are found again together with the data", () => {
    useThem(use());
    use();
    expect(left()).toEqual([true, true]);
  });

  it("are orphaned when the data is missing: agents are removed, volumes stay", () => {
    const state = use();
    useThem(state);
    rmSync(state.dataDir, { recursive: true });
    use();
    expect(left()).toEqual([false, true]);
  });

  it("are removed with the data by a fresh start", () => {
    const playground = () => {
      const state = new LocalState(dir, {}, "playground");
      state.close();
      return state;
    };
    useThem(playground());
    playground();
    expect(left()).toEqual([false, false]);
  });
});

describe("a state directory with data", () => {
  it("opens with the key it was created with", () => {
    const made = use();
    const opened = use({ DEV_ROOT_TOKEN: "another" });
    expect([opened.masterKey, opened.rootToken]).toEqual([made.masterKey, made.rootToken]);
  });

  it("is not emptied by a playground, unless only one has used it", () => {
    new LocalState(dir, {}, "playground").close();
    const opened = use();
    writeFileSync(join(opened.dataDir, "rows"), "");
    expect(() => new LocalState(dir, {}, "playground")).toThrow(
      `STATE_DIR ${dir} has the data of a service, and PLAYGROUND=1 would delete it: set STATE_DIR to another directory, or leave it out.`,
    );
    expect(existsSync(join(opened.dataDir, "rows"))).toBe(true);
    const own = join(dir, ".sallyport-playground");
    mkdirSync(join(own, "state"), { recursive: true });
    writeFileSync(join(own, "state", "rows"), "");
    for (let start = 0; start < 2; start++) new LocalState(own, {}, "playground").close();
    expect(existsSync(join(own, "state", "rows"))).toBe(false);
  });

  it("does not open without its key, and the error names both ways out", () => {
    use();
    rmSync(join(dir, ".dev.vars"));
    const waysOut = `restore ${dir}/.dev.vars from a backup, or remove ${dir} and start afresh.`;
    expect(() => use()).toThrow(
      `The data in ${dir} is sealed with a MASTER_KEY, and ${dir}/.dev.vars is gone: ${waysOut}`,
    );
    writeFileSync(join(dir, ".dev.vars"), "DEV_ROOT_TOKEN=t\n");
    expect(() => use()).toThrow(`${dir}/.dev.vars does not hold it any more: ${waysOut}`);
    writeFileSync(join(dir, ".dev.vars"), `DEV_ROOT_TOKEN=t\nMASTER_KEY=${NEW}\n`);
    expect(() => use()).toThrow(
      `The MASTER_KEY in ${dir}/.dev.vars is not the one that sealed the data in ${dir}: ${waysOut}`,
    );
    expect(vars()).toEqual({ DEV_ROOT_TOKEN: "t", MASTER_KEY: NEW });
  });

  it("follows its keyring: an old key is removable only after a newer one was used beside it", () => {
    use({ MASTER_KEY: OLD });
    expect(() => use({ MASTER_KEY: NEW })).toThrow("is not the one that sealed the data");
    use({ MASTER_KEY: `${NEW},${OLD}` });
    use({ MASTER_KEY: NEW });
    expect(() => use({ MASTER_KEY: OLD })).toThrow("is not the one that sealed the data");
  });

  it("keeps the key in its file when the environment has another keyring", () => {
    const { masterKey } = use();
    writeFileSync(join(dir, ".dev.vars"), `MASTER_KEY=${masterKey}\n`);
    use({ MASTER_KEY: `${NEW},${masterKey}`, DEV_ROOT_TOKEN: "t" });
    expect(vars()).toEqual({ MASTER_KEY: masterKey, DEV_ROOT_TOKEN: "t" });
  });

  it("records applied migrations", () => {
    const state = new LocalState(dir, {});
    state.noteMigrations("v7");
    state.close();
    expect(use().migrations).toBeUndefined();
    const ready = use();
    ready.noteMigrations("v8");
    expect(use().migrations).toBe("v8");
  });

  it("is fresh once, and again after a first start that was interrupted", () => {
    const cutShort = new LocalState(dir, {});
    mkdirSync(join(cutShort.dataDir, "v3"), { recursive: true });
    cutShort.close();
    const made = use();
    expect([cutShort.fresh, made.fresh, use().fresh]).toEqual([true, true, false]);
    expect(made.masterKey).toBe(cutShort.masterKey);
  });

  it("removes no data in production, where a first start that was interrupted may have data, too", () => {
    const env = { MASTER_KEY: OLD };
    const cutShort = new LocalState(dir, env, "production");
    mkdirSync(join(cutShort.dataDir, "v3"), { recursive: true });
    cutShort.close();
    const state = new LocalState(dir, env, "production");
    expect([state.fresh, existsSync(join(dir, "state", "v3")), existsSync(join(dir, ".dev.vars"))]).toEqual([
      false,
      true,
      false,
    ]);
    state.close();
    expect(() => new LocalState(dir, { MASTER_KEY: NEW }, "production")).toThrow("set the key from the safe");
    expect(() => new LocalState(dir, {}, "production")).toThrow("MASTER_KEY is required");
  });

  it("keeps its data when about.json is lost", () => {
    use();
    rmSync(join(dir, "about.json"));
    expect(use().fresh).toBe(false);
    expect(existsSync(join(dir, "state", "v3"))).toBe(true);
  });
});

describe("a state directory", () => {
  it("is locked for one process at a time", () => {
    const state = new LocalState(dir, {});
    expect(() => new LocalState(dir, {})).toThrow(`${dir} is in use by another service (process ${process.pid})`);
    // As the file of a container looks from another one.
    writeFileSync(join(dir, "lock"), "7 99 a-container\n");
    expect(() => new LocalState(dir, {})).toThrow(`${dir} is in use by another service (process 7 on a-container)`);
    state.close();
    // Version 0.2.0 has nothing but the file.
    const [, started] = readFileSync(`/proc/${process.ppid}/stat`, "utf8").split(") ");
    writeFileSync(join(dir, "lock"), `${process.ppid} ${started?.split(" ")[19]}\n`);
    expect(() => new LocalState(dir, {})).toThrow(`${dir} is in use by another service (process ${process.ppid})`);
  });

  it("is locked by the system until its process ends, with any text in the file beside it", async () => {
    mkdirSync(dir);
    const program = `const { Lock } = await import("./scripts/lock.ts");
    globalThis.lock = new Lock(${JSON.stringify(join(dir, "lock"))}, "it"); console.log("held"); setInterval(() => {}, 9e6)`;
    const holder = spawn(process.execPath, ["--input-type=module", "-e", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    await once(holder.stdout, "data");
    for (const text of [null, "", "2147483646 1\n"]) {
      if (text === null) rmSync(join(dir, "lock"));
      else writeFileSync(join(dir, "lock"), text);
      expect(() => new LocalState(dir, {}), String(text)).toThrow("is in use by another service");
    }
    holder.kill("SIGKILL");
    await once(holder, "exit");
    use();
  });

  it("is not locked by an ended process, nor by a later one with the same id", () => {
    mkdirSync(dir);
    writeFileSync(join(dir, "lock"), "2147483646 1\n");
    use();
    writeFileSync(join(dir, "lock"), `${process.ppid} 1\n`);
    use();
  });

  it("that is unusable is refused with one sentence", () => {
    writeFileSync(join(dir, "..", "file"), "");
    expect(() => new LocalState(join(dir, "..", "file"), {})).toThrow(/^STATE_DIR .*file cannot be used: EEXIST/);
    expect(() => new LocalState(join(dir, "..", "file", "x"), {})).toThrow(/^STATE_DIR .* cannot be used: ENOTDIR/);
    if (process.getuid?.() === 0) return;
    mkdirSync(dir);
    chmodSync(dir, 0o500);
    expect(() => new LocalState(dir, {})).toThrow(/^STATE_DIR .* cannot be used: EACCES/);
  });
});

describe("a printed line for a shell", () => {
  it("has values that stay one word, as they are where that is safe", () => {
    const safe = "/home/ann/my-state_2/volumes";
    expect(shellWord(safe)).toBe(safe);
    for (const text of ["/home/ann/my state", "it's", "~.root", "$HOME/`x`", ""])
      expect(execFileSync("sh", ["-c", `V=${shellWord(text)}; printf %s "$V"`], { encoding: "utf8" })).toBe(text);
  });
});
