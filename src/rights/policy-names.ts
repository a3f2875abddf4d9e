/** Names of policies as they are stored and compared: trimmed, in lower case, without blanks and repetitions. */
export const comparedPolicies = (names: readonly string[]): string[] => [
  ...new Set(names.map((name) => name.trim().toLowerCase()).filter((name) => name !== "")),
];
