/**
 * What a promise comes to.
 * @throws Error saying `late`, when it has not come to anything within `ms`
 */
export async function within<T>(ms: number, work: Promise<T>, late = `no answer within ${ms} ms`): Promise<T> {
  const over = Promise.withResolvers<never>();
  const timer = setTimeout(() => over.reject(new Error(late)), ms);
  try {
    return await Promise.race([work, over.promise]);
  } finally {
    clearTimeout(timer);
  }
}
