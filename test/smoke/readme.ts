import { readFileSync } from "node:fs";

export interface Shown {
  command: string;
  output: string;
}

/** The commands of the README's tour with the output that it shows. */
export function readmeTour(path: string): Shown[] {
  const section = readFileSync(path, "utf8").split("## Five-minute tour")[1]?.split("\n### ")[0] ?? "";
  return [...section.matchAll(/```console\n\$ ([^\n]+)\n([\s\S]*?)```/g)].map(([, command = "", output = ""]) => ({
    command,
    output,
  }));
}

/** Looks past what differs from run to run: ids, times, hashes, accessors. */
export function withoutTheVolatile(output: string): string {
  return output
    .replace(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "<id>")
    .replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, "<time>")
    .replace(/"Hash":"[^"]+"/g, '"Hash":"<hash>"')
    .replace(/kv_[0-9a-f]{8}/g, "kv_<accessor>")
    .trim();
}
