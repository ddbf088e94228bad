/** Longest wait, and the pause between two looks, in milliseconds. */
const PATIENCE = 15_000
const PAUSE = 5

/** Waits until `condition` is true, at most fifteen seconds. For what no event announces, such as the end of another process. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + PATIENCE
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`waited for ${PATIENCE} ms in vain`)
    await new Promise((resolve) => setTimeout(resolve, PAUSE))
  }
}
