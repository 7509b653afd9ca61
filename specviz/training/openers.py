"""First words of a user's turn. Left alone, a small model mostly greets and apologises to itself, so most conversations are nudged."""

OPENERS = (
    "Write a Python function that", "Write a short story about", "Explain", "What is", "Rewrite the following text:", "How do I",
    "Summarize this paragraph:", "Why", "Write a poem about", "List", "Translate into French:", "Who was", "What are the benefits of",
    "Here is some code:", "Give me a recipe for", "Describe", "Correct the grammar:", "In which year", "Write an email to", "How does",
    "Solve:", "What is the difference between", "请", "Tell me about", "Where is", "Write a class in Python", "Continue the story:",
    "Repeat the following sentence:", "Compare", "What is the capital of", "Write a JavaScript function", "Define", "Give me advice on",
    "Why do", "Why does", "Why is the", "How can I", "What happens when", "Explain how", "Explain why", "Explain the idea of", "Name",
    "Give an example of", "What causes", "What are the main", "List three", "List five", "List ten", "Suggest", "Plan a",
    "Tell me a story", "Tell me a joke about", "Who wrote", "Who invented", "When did", "When should I", "Which", "Can you explain",
    "Can you write", "Could you help me", "Please write", "Please summarize", "I want to learn", "I need help with", "I have a",
    "My teacher", "My friend", "Make a list of", "Make this sentence more polite:", "Write a letter", "Write a dialogue between",
    "Write a review of", "Write a speech", "Write a paragraph about", "Write three sentences about", "Write instructions for",
    "Write a SQL query", "Write a program", "Write a loop", "Write a haiku", "Fix this code:", "What does this code do?", "def ",
    "Calculate", "How many", "How much", "How long does", "How old", "If a train", "Is it", "Are there", "Do animals", "Does the",
    "Should I", "Imagine", "Pretend", "Classify", "Extract the names from:", "Rephrase:", "Translate into Spanish:",
    "Complete the sentence:", "What would", "What should I", "What can", "Teach me", "Outline", "Describe the life of", "Describe a day",
    "Discuss", "Create", "Design", "Invent", "Recommend", "The quick", "Once upon a time", "In simple words,", "Step by step,",
    "For a child of ten,", "As a doctor,", "In history,", "In physics,", "In biology,", "In Python,",
)  # fmt: skip
