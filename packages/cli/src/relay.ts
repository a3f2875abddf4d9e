import { InvalidOptions, RELAY_ABOUT, RELAY_ENVIRONMENT, RELAY_OPTIONS, readOptions } from "../../relay/src/options.ts";
import { command, InvalidUsage, type Options, optionFault, text, texts } from "./command.ts";

const options: Options = Object.fromEntries(
  Object.entries(RELAY_OPTIONS).map(([name, { value, help, isMultiple }]) => [
    name,
    isMultiple ? texts(value, help) : text(value, help),
  ]),
);

/** Starts the relay of `packages/relay`, which reads its own arguments. */
export const relay = command({
  words: ["relay", "nomad"],
  summary: "mirror a Nomad region into the service",
  about: RELAY_ABOUT,
  options,
  notes: RELAY_ENVIRONMENT,
  run: async ({ raw }, io) => {
    check(raw, io.env);
    const { runRelay } = await import("../../relay/src/relay.ts");
    return runRelay(["nomad", ...raw], io.env);
  },
});

/** @throws InvalidUsage */
function check(args: readonly string[], env: NodeJS.ProcessEnv): void {
  try {
    readOptions(["nomad", ...args], env);
  } catch (failure) {
    if (failure instanceof InvalidOptions) throw new InvalidUsage(optionFault(failure.cause ?? failure));
    throw failure;
  }
}
