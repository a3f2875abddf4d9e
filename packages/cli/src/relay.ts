import { InvalidOptions, readOptions, usageOf } from "../../relay/src/options.ts";
import { type Command, InvalidUsage, optionFault } from "./command.ts";

/** Starts the relay of `packages/relay`, which reads its own arguments and sets its own exit code. */
export const relay: Command = {
  words: ["relay", "nomad"],
  summary: "mirror a Nomad region into the service",
  usage: usageOf("sallyport relay"),
  run: async (args, io) => {
    check(args, io.env);
    // Read from the arguments of the process, where `relay nomad` is allowed.
    await import("../../relay/src/main.ts");
    return Number(process.exitCode ?? 0);
  },
};

/** @throws InvalidUsage */
function check(args: readonly string[], env: NodeJS.ProcessEnv): void {
  try {
    readOptions(["nomad", ...args], env);
  } catch (failure) {
    if (failure instanceof InvalidOptions) throw new InvalidUsage(optionFault(failure.cause ?? failure));
    throw failure;
  }
}
