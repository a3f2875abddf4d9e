/** An invalid filter expression, or one that does not apply to the rows. The message is for the caller. */
export class FilterError extends Error {
  override readonly name = "FilterError";
}
