/**
 * Conversion of tags to labels of a secret. Secret Manager API v1, resource Secret, field `labels`: at most 64; keys of
 * 1 to 63 characters `[\p{Ll}\p{Lo}][\p{Ll}\p{Lo}\p{N}_-]*`, values of 0 to 63 `[\p{Ll}\p{Lo}\p{N}_-]*`, each at most
 * 128 bytes.
 */
export const maxLabels = 64;
const maxCharacters = 63;
const maxBytes = 128;

const permitted = /^[\p{Ll}\p{Lo}\p{N}_-]$/u;
const firstOfKey = /^[\p{Ll}\p{Lo}]/u;

type Labels = { ok: true; labels: Record<string, string> } | { ok: false; message: string };

/** The label for a tag text: in lower case, with a hyphen for each character that labels do not allow. */
export const labelText = (text: string): string =>
  [...text.toLowerCase()].map((one) => (permitted.test(one) ? one : "-")).join("");

/** The labels for a complete set of tags, or the refusal in one sentence. */
export function labelsOf(tags: Readonly<Record<string, string>>): Labels {
  const refuse = (message: string): Labels => ({ ok: false, message: `custom_tags: ${message}` });
  const entries = Object.entries(tags);
  if (entries.length > maxLabels) {
    return refuse(`${entries.length} tags with the built-in one; at most ${maxLabels} are possible`);
  }
  const origin = new Map<string, string>();
  const labels: Record<string, string> = {};
  for (const [key, value] of entries) {
    const shown = JSON.stringify(key.slice(0, maxCharacters));
    const [label, content] = [labelText(key), labelText(value)];
    if (!firstOfKey.test(label)) return refuse(`the key ${shown} must begin with a letter`);
    if (!fits(label))
      return refuse(`the key ${shown} must be at most ${maxCharacters} characters and ${maxBytes} bytes`);
    if (!fits(content)) {
      return refuse(`the value of ${shown} must be at most ${maxCharacters} characters and ${maxBytes} bytes`);
    }
    const other = origin.get(label);
    if (other !== undefined) {
      return refuse(`the keys ${JSON.stringify(other)} and ${shown} would be the same label ${label}`);
    }
    origin.set(label, key);
    labels[label] = content;
  }
  return { ok: true, labels };
}

const fits = (text: string) => [...text].length <= maxCharacters && new TextEncoder().encode(text).length <= maxBytes;
