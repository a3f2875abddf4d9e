import { only } from "../lib/only.ts";

/** Several errors as one text, in the format of Go's multierror, which clients of areas C and D match. */
export const joinedErrors = (errors: readonly string[]): string =>
  `${errors.length} error${errors.length === 1 ? "" : "s"} occurred:\n${errors.map((error) => `\t* ${error}\n`).join("")}\n`;

/** A single error as it is; several joined. */
export const oneOrJoined = (errors: readonly string[]): string => only(errors) ?? joinedErrors(errors);
