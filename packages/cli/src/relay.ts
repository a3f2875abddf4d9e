import type { Command } from "./command.ts";

/** Starts the relay of `packages/relay`, which reads its own arguments and sets its own exit code. */
export const relay: Command = {
  words: ["relay"],
  summary: "mirror a Nomad region into the service",
  usage: `Usage: sallyport relay nomad [options]

Mirrors a Nomad region into Sallyport until SIGTERM or SIGINT. Options and environment are those of the
relay's own program: \`sallyport relay\` without arguments prints them.
`,
  run: async () => {
    // Read from the arguments of the process, where `relay nomad` is allowed.
    await import("../../relay/src/main.ts");
    return Number(process.exitCode ?? 0);
  },
};
