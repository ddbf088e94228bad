/** npm runs scripts in the project's folder and says where the caller stood. */
export function callerFolder(): string {
  return process.env.INIT_CWD ?? process.cwd()
}
