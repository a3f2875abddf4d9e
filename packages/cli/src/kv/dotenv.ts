/** Values in .env files. The console reads this file, too. */

export const isEnvName = (key: string): boolean => /^[A-Za-z_][A-Za-z0-9_]*$/.test(key);

/** A value as shells and readers of .env files read alike; null = neither kind of quotes can hold it. */
export function quotedEnvValue(value: string): string | null {
  if (/^[\w@%+,./:-]*$/.test(value)) return value;
  if (!/['\r]/.test(value)) return `'${value}'`;
  if (!/["$`\\\r]/.test(value)) return `"${value}"`;
  return null;
}
