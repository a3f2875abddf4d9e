import { Api, ApiError } from "./api.ts";
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

/**
 * Checks a token where an answer is the same for an ended token as for one without rights.
 * @throws ApiError for an unknown or ended token
 */
export async function checkToken(api: Api): Promise<void> {
  await api.fields("auth/token/lookup-self").catch((failure: unknown) => {
    // A living token may lack the right to look.
    if (!(failure instanceof ApiError && failure.status === 403 && !/invalid token/.test(failure.reason)))
      throw failure;
  });
}
