import { Api } from "./api.ts";
import { type Io, JSON_OPTION, text } from "./command.ts";
import { serviceOf } from "./environment.ts";

/** Options of every command that reads or writes one namespace. */
export const SERVICE_OPTIONS = {
  namespace: text("NAME", "the namespace (default: that of the environment or the login)"),
  ...JSON_OPTION,
};

const RETRIES = 3;

/** The service of the environment or of the last login. @throws InvalidUsage */
export function connect({ namespace }: { readonly namespace: string | undefined }, io: Io): Api {
  const server = serviceOf(io.env);
  return new Api(namespace === undefined ? server : { ...server, namespace }, RETRIES, io);
}
