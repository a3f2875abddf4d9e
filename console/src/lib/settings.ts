/** Stored settings in a form, and the body that changes them. */

export type FormValue = Readonly<Record<string, unknown>>;

/**
 * Stored settings as a form shows them: without empty ones.
 * @param replaces the write replaces all settings: the default of one that is left out may be another than false or 0
 */
export const formOf = (settings: FormValue, replaces = false): FormValue =>
  Object.fromEntries(
    Object.entries(settings)
      .filter(([, value]) => value !== null && value !== "" && (replaces || (value !== 0 && value !== false)))
      .map(([name, value]) => [name, typeof value === "number" ? String(value) : value]),
  );

/** The body that changes stored settings to those of the form: fields that were emptied are cleared. */
export function changedBody(before: FormValue, value: FormValue): FormValue {
  const gone = Object.entries(before).filter(([name]) => !Object.hasOwn(value, name));
  return { ...value, ...Object.fromEntries(gone.map(([name, old]) => [name, emptyLike(old)])) };
}

function emptyLike(value: unknown): unknown {
  if (Array.isArray(value)) return [];
  return typeof value === "object" ? {} : "";
}
