/** A text with variables, such as `team-${value.team}`: literal texts and names of variables in turn, text first. */
type Template = readonly string[];

const VARIABLE = /\$\{\s*([A-Za-z_][\w.-]*)\s*\}/;

/**
 * Reads `${name}` in a text: the plain variables of HIL (https://github.com/hashicorp/hil), without its operators and
 * functions. @returns null when the text has `${` that does not begin a variable
 */
export function readTemplate(text: string): Template | null {
  const parts = text.split(VARIABLE);
  return parts.some((part, at) => at % 2 === 0 && part.includes("${")) ? null : parts;
}

/** The names of a template's variables. */
export const variablesOf = (template: Template): string[] => template.filter((_part, at) => at % 2 === 1);

/** Fills in a template. @param of the value of a variable */
export const filled = (template: Template, of: (name: string) => string): string =>
  template.map((part, at) => (at % 2 === 1 ? of(part) : part)).join("");
