/** Tags as the provider's services take them. */
export const tagList = (tags: Readonly<Record<string, string>>) =>
  Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));

/** Tag limits and characters: the provider's "Tagging your resources" rules, the same for all its services. */
export function checkTags(tags: Record<string, string>): string | null {
  const entries = Object.entries(tags);
  if (entries.length > 50) return `custom_tags: ${entries.length} tags with the built-in one; at most 50 are possible`;
  for (const [key, value] of entries) {
    const shown = JSON.stringify(key.slice(0, 128));
    if (key === "" || [...key].length > 128) return `custom_tags: the key ${shown} must be 1 to 128 characters`;
    if ([...value].length > 256) return `custom_tags: the value of ${shown} must be at most 256 characters`;
    if (/^aws:/i.test(key)) return `custom_tags: the key ${shown} must not begin with aws:`;
    if (!tagText.test(key) || !tagText.test(value)) {
      return `custom_tags: ${shown} and its value may hold letters, digits, spaces and _.:/=+-@ only`;
    }
  }
  return null;
}

const tagText = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;
