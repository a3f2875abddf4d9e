/** An element of an answer of the query protocol. */
export interface XmlElement {
  readonly name: string;
  /** Its own text, trimmed. */
  readonly text: string;
  readonly children: readonly XmlElement[];
}

const MAX_DEPTH = 32;
const ENTITIES: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };

/**
 * Reads an answer of the query protocol: elements, text and entities; attributes are skipped. Without CDATA, document
 * types and mixed content, which the provider never sends. @returns the root; null for any other text
 */
export function parseXml(source: string): XmlElement | null {
  const root: Open = { name: "", text: "", children: [] };
  const open: Open[] = [root];
  const tokens = source
    .replace(/^\uFEFF?\s*<\?xml[^>]*\?>/, "")
    .matchAll(/<(\/?)([A-Za-z_][\w.:-]*)([^<>]*)>|([^<]+)|</g);
  for (const [, closing, name, attributes, text] of tokens) {
    const current = open.at(-1);
    if (!current || open.length > MAX_DEPTH) return null;
    if (text !== undefined) current.text += text;
    else if (name === undefined || attributes === undefined) return null;
    else if (closing === "/") {
      const ended = open.pop();
      if (ended?.name !== name || open.length === 0) return null;
    } else {
      const element: Open = { name, text: "", children: [] };
      current.children.push(element);
      if (!attributes.endsWith("/")) open.push(element);
    }
  }
  const [only, other] = root.children;
  return open.length === 1 && only && !other && root.text.trim() === "" ? closed(only) : null;
}

interface Open {
  readonly name: string;
  text: string;
  readonly children: Open[];
}

const closed = ({ name, text, children }: Open): XmlElement => ({
  name,
  text: decoded(text.trim()),
  children: children.map(closed),
});

const decoded = (text: string): string =>
  text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|(\w+));/gi, (whole, decimal, hex, named) => {
    if (named !== undefined) return ENTITIES[named] ?? whole;
    const code = decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal);
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });

/** The first element of a name, the element itself included, depth first; null without one. */
export function elementNamed(element: XmlElement | null, name: string): XmlElement | null {
  if (!element || element.name === name) return element;
  for (const child of element.children) {
    const found = elementNamed(child, name);
    if (found) return found;
  }
  return null;
}

/** The text of the first element of a name; null without one. */
export const textNamed = (element: XmlElement | null, name: string): string | null =>
  elementNamed(element, name)?.text ?? null;

/** The members of a list, which is the first element of a name. */
export const membersOf = (element: XmlElement | null, name: string): readonly XmlElement[] =>
  elementNamed(element, name)?.children.filter((child) => child.name === "member") ?? [];
