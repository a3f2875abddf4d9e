/** A filter expression that cannot be read, or cannot be applied to the rows. The message is for the caller. */
export class FilterError extends Error {
  override readonly name = "FilterError";
}
