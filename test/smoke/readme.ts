import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

export interface Shown {
  command: string;
  output: string;
}

/** The commands of a page's tour with the outputs that it shows; a block may hold several. */
export function shownIn(path: string, heading: string): Shown[] {
  const section =
    readFileSync(path, "utf8")
      .split(`## ${heading}\n`)[1]
      ?.split(/\n##+ /)[0] ?? "";
  return [...section.matchAll(/```console\n([\s\S]*?)```/g)].flatMap(([, block = ""]) =>
    block
      .split(/^\$ /m)
      .slice(1)
      .map((step) => {
        const [command = "", ...output] = step.split("\n");
        return { command, output: output.join("\n") };
      }),
  );
}

/** The output of each command, run one after another. */
export async function outputsOf(shown: readonly Shown[], run: (command: string) => Promise<string>): Promise<string[]> {
  const outputs: string[] = [];
  for (const step of shown) outputs.push(await outputOf(step, run));
  return outputs;
}

/** A set of an association is answered after two seconds, whether or not the secret was pushed by then. */
const isPending = (command: string, output: string) =>
  /associations\/set$/.test(command) && output.includes('"sync_status":"PENDING"');

/**
 * Runs a command again where it has a time limit that a busy machine may exceed: a stream with more time, and a set
 * until its push has ended.
 */
async function outputOf({ command, output }: Shown, run: (command: string) => Promise<string>): Promise<string> {
  let printed = await run(command);
  if (withoutTheVolatile(printed) === withoutTheVolatile(output)) return printed;
  for (let again = 0; again < 60 && isPending(command, printed); again++) {
    await sleep(1_000);
    printed = await run(command);
  }
  return command.includes("--max-time 2 ") ? run(command.replace("--max-time 2 ", "--max-time 20 ")) : printed;
}

/** Looks past what differs from run to run: ids, times, indexes, hashes, accessors, directories,
 * signs of life, and whether a node has shown a volume yet. */
export function withoutTheVolatile(output: string): string {
  return output
    .replace(/^\{"Index":\d+,"Events":\[\]\}\n?|^id: \d+\n\n/gm, "")
    .replace(/"State":"(pending|ready)"/g, '"State":"<state>"')
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>")
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>")
    .replace(/"((Create|Modify)Time|StatusUpdatedAt)":\d+/g, '"$1":<time>')
    .replace(/"((Create|Modify)?Index)":\d+/g, '"$1":<index>')
    .replace(/^(id|index|x-orch-oldest-index): \d+/gim, "$1: <index>")
    .replace(/"HostPath":"[^"]*\//g, '"HostPath":"<directory>/')
    .replace(/"Path":"[^"]+"/g, '"Path":"<path>"')
    .replace(/\b(vol|snap)-[0-9a-z]{11}-[0-9a-f]{8}\b/g, "<$1>")
    .replace(/"Hash":"[^"]+"/g, '"Hash":"<hash>"')
    .replace(/kv[_-][0-9a-f]{8}/gi, "kv_<accessor>")
    .replace(/127\.0\.0\.1:\d+/g, "127.0.0.1:<port>")
    .replace(/"(fingerprint|client_secret)":"[^"]+"/g, '"$1":"<$1>"')
    .replace(/\b[0-9A-Za-z]{24}\b/g, "<lease>")
    .trim();
}
