/** Incremental writer of a JSON list: the text equals `JSON.stringify` of the whole. */
interface JsonList {
  readonly open: string;
  item(value: unknown, first: boolean): string;
  /** @param empty whether no item was written */
  close(empty: boolean, nextToken: string): string;
}

const INDENT = "    ";

/** @param wrap the list is a member of this name, beside `NextToken` */
export function jsonList(pretty: boolean, wrap?: string): JsonList {
  const name = wrap === undefined ? "" : JSON.stringify(wrap);
  if (!pretty) {
    return {
      open: wrap === undefined ? "[" : `{${name}:[`,
      item: (value, first) => `${first ? "" : ","}${JSON.stringify(value)}`,
      close: (_empty, nextToken) => (wrap === undefined ? "]" : `],"NextToken":${JSON.stringify(nextToken)}}`),
    };
  }
  const outer = wrap === undefined ? "\n" : `\n${INDENT}`;
  const inner = `${outer}${INDENT}`;
  return {
    open: wrap === undefined ? "[" : `{${outer}${name}: [`,
    item: (value, first) => `${first ? "" : ","}${inner}${JSON.stringify(value, null, INDENT).replaceAll("\n", inner)}`,
    close: (empty, nextToken) => {
      const end = wrap === undefined ? "\n" : `,${outer}"NextToken": ${JSON.stringify(nextToken)}\n}\n`;
      return `${empty ? "" : outer}]${end}`;
    },
  };
}
