import type { RemoteDestinationType } from "./destination-type.ts";

/** Default names of objects, and the rules of environment variables, for the types that share them. */

type Defaults = Pick<RemoteDestinationType<never>, "defaults" | "naming">;

const template = {
  "secret-path": "vault/{{ .MountAccessor }}/{{ .SecretPath }}",
  "secret-key": "vault/{{ .MountAccessor }}/{{ .SecretPath }}/{{ .SecretKey }}",
};

/** One object for each key of a secret. */
export const EACH_KEY: Defaults["defaults"] = { granularity: "secret-key", template };

/** One object for each secret. */
export const EACH_SECRET: Defaults["defaults"] = { granularity: "secret-path", template };

/** Names of environment variables, made from any text. */
export const environmentNames = (maxLength = 255): Defaults["naming"] => ({
  allowed: /^[A-Za-z0-9_]$/,
  maxLength,
  replacement: "_",
  adapt: (name) => (/^\d/.test(name) ? `_${name}` : name),
});

/** The names of environment variables that a provider takes, for `checkObject`. */
export const environmentRule = (maxLength = 255) => ({
  name: new RegExp(`^[A-Za-z_]\\w{0,${maxLength - 1}}$`),
  rule: `be 1 to ${maxLength} letters, digits or _, not beginning with a digit`,
});
