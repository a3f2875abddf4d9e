import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { type Response as Heard, pinged, silence } from "../../scripts/heartbeat.ts";

describe("a heartbeat", () => {
  /** Number of answers until the process counts as dead; null if it never does. */
  async function asked(answers: readonly Heard[]): Promise<number | null> {
    let at = 0;
    const end = new AbortController();
    const ask = async (): Promise<Heard> => {
      const answer = answers[at];
      at += 1;
      if (answer) return answer;
      end.abort();
      return "well";
    };
    const ended = new Promise<null>((resolve) =>
      end.signal.addEventListener("abort", () => setTimeout(() => resolve(null), 20)),
    );
    const dead = silence(ask, end.signal, { everyMs: 1, answerMs: 1, misses: 3 }).then(() => at);
    return Promise.race([dead, ended]);
  }

  it.each<[Heard[], number | null]>([
    [["late", "late", "late"], 3],
    [["well", "late", "late", "well", "late", "late", "late"], 7],
    [["late", "late", "well", "late", "late", "well"], null],
    [["gone", "gone"], 2],
    [["gone", "well", "gone", "late", "gone"], null],
    [["late", "gone", "late", "gone", "gone"], 5],
  ])("with the results %j counts the process as dead after %s of them", async (answers, heard) =>
    expect(await asked(answers)).toBe(heard),
  );

  it("fails for a frozen process, and succeeds for a responsive one", { timeout: 120_000 }, async () => {
    const dir = mkdtempSync(join(tmpdir(), "sallyport-heartbeat-"));
    const file = join(dir, "child.mjs");
    writeFileSync(
      file,
      `import { answerPings } from ${JSON.stringify(new URL("../../scripts/heartbeat.ts", import.meta.url).href)};\nanswerPings();\n`,
    );
    const child: ChildProcess = fork(file, [], { stdio: ["ignore", "inherit", "inherit", "ipc"], execArgv: [] });
    try {
      expect(await pinged(child, 60_000)).toBe("well");
      child.kill("SIGSTOP");
      expect(await pinged(child, 100)).toBe("late");
      child.kill("SIGKILL");
      await once(child, "exit");
      expect(await pinged(child, 60_000)).toBe("gone");
    } finally {
      child.kill("SIGKILL");
      rmSync(dir, { recursive: true });
    }
  });
});
