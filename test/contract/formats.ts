/** The meaning of a `format`, implemented independently of the server. */
interface Format {
  test(value: string): boolean
  /** Values start with this. */
  prefix: string
  /** Characters that may follow. */
  filling: string
  /** Invalid values, each for another reason. */
  wrong: readonly string[]
}

export const formats: Readonly<Record<string, Format>> = {
  'http-url': {
    test: (value) =>
      /^https?:\/\//i.test(value) && !/[\p{White_Space}\p{Cc}]/u.test(value) && URL.canParse(value),
    prefix: 'https://ci.example.org/',
    filling: 'abcXYZ019-._~/?#[]@!$&\'()*+,;=%é漢字😀\u0301\u200d"<>\\^`{|}',
    wrong: [
      '',
      'ci.example.org',
      '//ci.example.org/',
      '/jobs/1',
      'http:/ci.example.org',
      'http:ci.example.org',
      'http://',
      'https://:80',
      'http://[::1',
      'ftp://ci.example.org/',
      'javascript:alert(1)',
      'java\tscript:alert(1)',
      'data:text/html,x',
      'file:///etc/passwd',
      ' https://ci.example.org/',
      'https://ci.example.org/ ',
      'https://ci.example.org/a b',
      'https://ci.example.org/\t',
      'https://ci.example.org/\n',
      'https://ci.example.org/\u0000',
      'https://ci.example.org/\u007f',
      'https://ci.example.org/\u0085',
      'https://ci.example.org/\u00a0',
      'https://ci.example.org/\u2028',
      'https://ci.example.org/\u3000',
      'https://ci.example.org:99999/',
    ],
  },
}
