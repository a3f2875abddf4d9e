/** Several findings as one text, in the form that clients of areas C and D know. */
export const joinedErrors = (errors: readonly string[]): string =>
  `${errors.length} error${errors.length === 1 ? "" : "s"} occurred:\n${errors.map((error) => `\t* ${error}\n`).join("")}\n`;

/** One finding by itself, several joined. */
export const oneOrJoined = (errors: readonly string[]): string =>
  errors.length === 1 ? (errors[0] ?? "") : joinedErrors(errors);
