/** Compiles the patterns that are given as arguments. */
class Patterns {
    public static void main(String[] patterns) {
        for (String pattern : patterns) java.util.regex.Pattern.compile(pattern);
    }
}
